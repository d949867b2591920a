"""Exact multi-token decoding: the masks' proposals are drafts, and the next pass verifies them with the same model.

A pass reads the last real token (the root) and K drafts after it. What the model predicts at the root is what one-token
mode writes; as long as a draft equals the prediction before it, the next prediction is one-token mode's too. So the
text is that of `autoregressive` on the same checkpoint, and no threshold is involved. New drafts come from masks:

    linear      root  d1 … dK  m1 … mK                       2K + 1 columns, causal
    quadratic   root  d1 … dK  m1 … mK  m1 … mK  …  m1 … mK  (K + 1)² columns, one group behind each of K + 1 prefixes

After a miss in the linear layout the masks have read a wrong draft, and the columns behind it serve as drafts: guesses,
which cost nothing and cannot do harm. In the quadratic layout one group of masks has read exactly what was accepted.

Sampling is exact too: noise belongs to the seed and the position (mars/sampling.py), so that a draft and the token that
one-token mode samples there are drawn alike, and the draft is accepted when they are equal.

Shapes: R rows, Q columns, W = 2K + 1 proposals, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import ClassVar

import torch

from mars.acceptance import Read, match_prefix
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts, check, trained_mask
from mars.decoding.layouts import Chooser, Layout, chooser_of, columns_of
from mars.decoding.method import DRAFT, MASK, Method, Verdict, slots_of
from mars.decoding.pool import decode
from mars.decoding.sequences import Batch, Row
from mars.engine import Engine
from mars.masks import verification_tree
from mars.records import ForwardPass, Phase, Source
from mars.window import Window


@dataclass(frozen=True, kw_only=True)
class SelfSpeculative(Method):
    """`drafts` is K; `layout` None lets the chooser take the one that pays most at the batch's size."""

    phase: ClassVar[Phase] = "verify"
    caches_accepted: ClassVar[bool] = True

    mask_token_id: int
    drafts: int
    layout: Layout | None
    chooser: Chooser | None = field(default=None, compare=False)

    @property
    def lookahead(self) -> int:
        return columns_of("quadratic" if self.layout is None else self.layout, self.drafts) + 1

    def begin(self, row: Row, tokens_K: torch.Tensor) -> None:
        # A mask is never predicted, so it is a draft that always misses; the columns that read it make proposals. All
        # slots, not the first K alone: a pass without drafts writes none, and an earlier row may have used the place.
        tokens_K[row.length + 1 :] = self.mask_token_id

    def window(self, batch: Batch) -> Window:
        layout = self.layout if self.chooser is None else self.chooser.choose(len(batch.rows))
        columns = columns_of(layout or "linear", self.drafts)
        slots_RQ = slots_of(batch, columns - 1)
        ids_RQ = batch.tokens_RK.gather(1, slots_RQ)
        ids_RQ[:, batch.pending + self.drafts :] = self.mask_token_id
        window = Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=batch.extent + columns - 1, keep=columns)
        if layout != "quadratic":
            return window
        depths_Q, sees_QQ = verification_tree(batch.pending, self.drafts, self.drafts, slots_RQ.device)
        positions_RQ = (batch.length_R[:, None] - 1 + depths_Q).clamp_min(0)
        return replace(window, positions_RQ=positions_RQ, sees_RQQ=sees_QQ[None])

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> Verdict:
        drafts, columns = self.drafts, logits_RWV.shape[1]
        quadratic = columns == columns_of("quadratic", drafts)
        offsets_W = verification_tree(1, drafts, drafts, logits_RWV.device)[0] if quadratic else None
        found = self.read(batch, logits_RWV, offsets_W)
        if columns == 1:
            return Verdict(found, torch.ones_like(batch.length_R))
        offsets_K = torch.arange(1, drafts + 1, device=logits_RWV.device)
        drafts_RK = batch.tokens_RK.gather(1, batch.length_R[:, None] + offsets_K)
        accepted_R = match_prefix(
            found.ids_RW[:, : drafts + 1], drafts_RK, stop_ids=batch.stop_ids, room_R=batch.room_R
        )
        return Verdict(_along(found, accepted_R, drafts) if quadratic else found, accepted_R)

    def sources(self, row: Row, threshold: float | None, accepted: int, columns: int) -> Sequence[Source]:
        """Verified first, then the drafts for the next pass, which are the proposals past the accepted prefix."""
        count = min(accepted + self.drafts if columns > 1 else 1, row.room)
        # The quadratic layout goes on with the masks behind the accepted prefix, the linear one with its columns in
        # order. In a row's first pass the drafts are masks themselves.
        quadratic = columns == columns_of("quadratic", self.drafts)
        read = 0 if row.written == 0 else accepted - 1 if quadratic else self.drafts
        sources: Sequence[Source] = ("clean", *repeat(DRAFT, read), *repeat(MASK, 2 * self.drafts))
        return sources[:count]

    def observe(self, rows: int, columns: int, seconds: float, accepted: int) -> None:
        if self.chooser is not None:
            self.chooser.observe(rows, columns, seconds, accepted)


def _along(found: Read, accepted_R: torch.Tensor, drafts: int) -> Read:
    """The proposals [R, 2K + 1] on the accepted path: its verified tokens, then those of the masks behind it.

    Past them the last column is repeated; nothing reads it.
    """
    columns_W = torch.arange(2 * drafts + 1, device=accepted_R.device)
    last_R1 = accepted_R[:, None] - 1
    # Group j starts at column K + 1 + jK, and its first mask follows position j of the chain.
    in_group_RW = drafts * (last_R1 + 1) + (columns_W - last_R1).clamp(1, drafts)
    index_RW = torch.where(columns_W <= last_R1, columns_W, in_group_RW)
    alternatives = None
    if found.alternatives is not None:
        ids_RWA, probabilities_RWA = found.alternatives
        index_RWA = index_RW[..., None].expand(-1, -1, ids_RWA.shape[-1])
        alternatives = ids_RWA.gather(1, index_RWA), probabilities_RWA.gather(1, index_RWA)
    return Read(found.ids_RW.gather(1, index_RW), found.scores_RW.gather(1, index_RW), alternatives)


def self_speculative(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """Exactly the text of `autoregressive` on the same checkpoint, in several times fewer passes.

    K is `block_size` - 1 (`block_size` with `extra_proposal`). Records carry no threshold; the proposals past the
    accepted prefix are the drafts of the next pass.

    Raises:
        ValueError: at the call, for prompts that are empty or do not fit the context, a model without masks, or a block
            size that leaves no draft.
    """
    check(engine, prompts, settings)
    return decode(engine, prompts, settings, control or Control(None), method_of(engine, settings))


def method_of(engine: Engine, settings: DecodingSettings) -> SelfSpeculative:
    """The method that these settings ask for.

    Raises:
        ValueError: the model was not trained to fill masks, or there is no room for a draft.
    """
    drafts = settings.block_size - (not settings.extra_proposal)
    if drafts < 1:
        raise ValueError(
            f"self_speculative needs block_size >= 2, got {settings.block_size}: a block of 1 has no draft"
        )
    return SelfSpeculative(
        mask_token_id=trained_mask(engine, "self_speculative"),
        drafts=drafts,
        layout=None if settings.layout == "auto" else settings.layout,
        chooser=chooser_of(engine, drafts) if settings.layout == "auto" else None,
        score=settings.score,
        alternatives=settings.alternatives,
    )
