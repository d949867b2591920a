"""Relaxed verification: drafts as in exact decoding, and τ decides how near the model's own token a draft must be.

It stays if p(draft) ≥ τ · max p. A stop token must be the most probable one, or answers would end early (docs/log.md).
Shapes: as in mars/decoding/self_speculative.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from mars.acceptance import Read, passes
from mars.config import DecodingSettings
from mars.decoding.method import Batch
from mars.decoding.self_speculative import SelfSpeculative
from mars.decoding.self_speculative import method_of as exact_method_of
from mars.engine import Engine


@dataclass(frozen=True, kw_only=True)
class Relaxed(SelfSpeculative):
    """Exact decoding whose drafts stay if they are at least τ times as probable as the best token; None: exact.

    Such a draft takes the place of the model's own proposal, with its own probability.
    """

    uses_threshold: ClassVar[bool] = True
    verifies: ClassVar[bool] = True

    def verified(
        self,
        batch: Batch,
        chain: Read,
        drafts_RD: torch.Tensor,
        logits_RWV: torch.Tensor,
        root_R: torch.Tensor | None = None,
    ) -> tuple[Read, torch.Tensor]:
        if set(batch.thresholds) == {None}:
            return super().verified(batch, chain, drafts_RD, logits_RWV, root_R)
        count, (_, width, vocabulary) = drafts_RD.shape[1], logits_RWV.shape
        rows_R1 = torch.arange(len(logits_RWV), device=logits_RWV.device)[:, None]
        columns_RD = torch.arange(count, device=logits_RWV.device).expand(len(logits_RWV), -1)
        if root_R is not None:
            columns_RD = (columns_RD + root_R[:, None]).clamp_max(width - 1)
        own_RD, scores_RD = chain.ids_RW[:, :count], chain.scores_RW[:, :count]
        there_RD = (drafts_RD >= 0) & (drafts_RD != self.mask_token_id)  # those stand for drafts that are not there
        logits_RD = logits_RWV[rows_R1, columns_RD, drafts_RD.clamp(0, vocabulary - 1)].double()
        own_logits_RD = logits_RWV[rows_R1, columns_RD, own_RD].double()
        # A drawn token need not be the most probable one, a greedy one is.
        best_RD = logits_RWV[rows_R1, columns_RD].amax(-1).double() if batch.sampling.active else own_logits_RD
        near_RD = there_RD & passes((logits_RD - best_RD).exp(), batch.limits_R, "probability")
        tolerated_RD = near_RD & (drafts_RD != own_RD) & ~torch.isin(drafts_RD, batch.stop_ids)
        ids_RW, scores_RW = chain.ids_RW.clone(), chain.scores_RW.clone()
        ids_RW[:, :count] = torch.where(tolerated_RD, drafts_RD, own_RD)
        given_RD = scores_RD * (logits_RD - own_logits_RD).exp()
        scores_RW[:, :count] = torch.where(tolerated_RD, given_RD, scores_RD)
        chain = replace(chain, ids_RW=ids_RW, scores_RW=scores_RW)
        return chain, batch.matched(ids_RW, drafts_RD)


def method_of(engine: Engine, settings: DecodingSettings) -> SelfSpeculative:
    """The method that these settings ask for. ValueError as for exact decoding."""
    return exact_method_of(engine, settings, "relaxed", Relaxed)
