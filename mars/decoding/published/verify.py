"""One pass of the target over the drafts of another model (arXiv 2604.07023, section 4.6).

    root  d1 … dK  [m1 … mM  m1 … mM  …  m1 … mM]

What the target predicts at the root and behind each draft is what it writes alone, as long as the drafts before are
right. The groups of masks, one behind each of the K + 1 prefixes, are there with a continuation only: the one behind
the drafts that were right proposes what comes after the target's own token.

Shapes: R rows, K drafts, M masks a group, W proposals a row, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from mars.acceptance import Read, match_prefix, threshold_prefix, thresholds
from mars.decoding.method import AcceptResult, Batch, Method, Row, tree_window, window_of
from mars.decoding.paths import group_of, joined
from mars.decoding.published.lockstep import LockstepRow
from mars.engine.window import Window
from mars.records import Phase, Source


@dataclass(frozen=True, kw_only=True)
class Verify(Method):
    """The drafts that equal the target's tokens are accepted, and the target's token behind them. `drafts` is K."""

    phase: ClassVar[Phase] = "verify"

    drafts: int

    @property
    def lookahead(self) -> int:
        return self.drafts + 1

    def shape(self, batch: Batch) -> tuple[int, int]:
        """K and M of this pass: no more than there is room for."""
        return min(self.drafts, batch.room - 1), 0

    def window(self, batch: Batch) -> Window:
        return window_of(batch, self.shape(batch)[0])

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        found = self.read(batch, logits_RWV)
        return AcceptResult(found, self.verified(batch, found))

    def verified(self, batch: Batch, found: Read) -> torch.Tensor:
        """The number of tokens [R] that are the target's own: the drafts that are right, and one more.

        The first K + 1 proposals are those of the chain.
        """
        drafts = self.shape(batch)[0]
        number_K = torch.arange(drafts, device=batch.length_R.device)
        drafts_RK = batch.tokens_RK.gather(1, batch.length_R[:, None] + 1 + number_K)
        drafted_R1 = torch.tensor([_drafted(row) for row in batch.rows], device=number_K.device)[:, None]
        drafts_RK = drafts_RK.masked_fill(number_K >= drafted_R1, -1)
        return match_prefix(found.ids_RW, drafts_RK, stop_ids=batch.stop_ids, room_R=batch.room_R)

    def sources(self, row: Row, threshold: float | None, accepted: int, columns: int) -> Sequence[Source]:
        drafts: list[Source] = ["draft"] * _drafted(row)
        return ("clean", *drafts)

    def absent(self, batch: Batch, row: Row, columns: int) -> range:
        return range(1 + _drafted(row), 1 + self.shape(batch)[0])


@dataclass(frozen=True, kw_only=True)
class VerifyAndContinue(Verify):
    """After the verified tokens, those of the masks behind them while they meet the threshold. `masks` is M."""

    uses_threshold: ClassVar[bool] = True

    masks: int
    mask_token_id: int

    @property
    def lookahead(self) -> int:
        return self.drafts + 1 + (self.drafts + 1) * self.masks

    def shape(self, batch: Batch) -> tuple[int, int]:
        masks = 0 if set(batch.thresholds) == {None} else min(self.masks, batch.room - 1)
        return min(self.drafts, batch.room - 1), masks

    def window(self, batch: Batch) -> Window:
        drafts, masks = self.shape(batch)
        return tree_window(batch, drafts, masks, self.mask_token_id)

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        drafts, masks = self.shape(batch)
        chain = self.read(batch, logits_RWV[:, : drafts + 1])
        verified_R = self.verified(batch, chain)
        if not masks:
            return AcceptResult(chain, verified_R)
        last_R = verified_R - 1
        right_R1 = last_R[:, None]
        group = self.read_group(batch, logits_RWV, group_of(last_R, drafts, masks), chain, last_R)
        path = joined(chain, group, last_R)
        columns_W = torch.arange(drafts + 1 + masks, device=logits_RWV.device)
        surest = -math.inf if self.score == "entropy" else math.inf
        scores_RW = path.scores_RW.masked_fill(columns_W <= right_R1, surest)
        accepted_R = threshold_prefix(
            path.ids_RW,
            scores_RW.masked_fill(columns_W > right_R1 + masks, -surest),
            thresholds_R=thresholds(batch.thresholds, self.score, logits_RWV.device),
            score=self.score,
            stop_ids=batch.stop_ids,
            room_R=batch.room_R,
        )
        return AcceptResult(path, accepted_R)

    def sources(self, row: Row, threshold: float | None, accepted: int, columns: int) -> Sequence[Source]:
        """Those of the path; `accepted` counts the verified tokens alone."""
        if threshold is None:
            return super().sources(row, threshold, accepted, columns)
        drafts: list[Source] = ["draft"] * (accepted - 1)
        masks: list[Source] = ["mask"] * self.masks
        return ("clean", *drafts, *masks)[: row.room]


def _drafted(row: Row) -> int:
    """The number of drafts behind its last token."""
    return len(row.drafts) if isinstance(row, LockstepRow) else 0
