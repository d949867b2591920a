"""Sliding-window decoding (arXiv 2604.07023, section 3.4): accept from the left, slide the masks behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import ClassVar

import torch

from mars.config import DecodingSettings
from mars.decoding.base import trained_mask
from mars.decoding.method import MASK, AcceptResult, Batch, Method, Row, window_of
from mars.engine import Engine
from mars.engine.window import Window
from mars.records import Source


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(Method):
    """The tokens accepted last are read, then `masks` masks; the last real token and each mask make a proposal.

    If it `fits` the text, a policy chooses in each pass how many of these masks a row has (mars/decoding/policy.py).

    The prediction of the last mask of a block is the extra proposal: without it that mask is not forwarded, which under
    a causal mask changes nothing for the others. The threshold is the control's at each pass; None is one-token mode.
    """

    uses_threshold: ClassVar[bool] = True
    capturable: ClassVar[bool] = True

    mask_token_id: int
    masks: int
    fits: bool = False

    @property
    def adapts(self) -> bool:
        return self.fits

    @property
    def most_masks(self) -> int:
        return self.masks

    def spending(self, masks: int) -> Method:
        return self if masks == self.masks else replace(self, masks=masks)

    @property
    def lookahead(self) -> int:
        return self.masks + 1

    @property
    def pending(self) -> int:
        return self.masks + 1

    def window(self, batch: Batch) -> Window:
        # One-token mode reads no mask, and no mask is forwarded whose proposal has no room in any row.
        masks = 0 if set(batch.thresholds) == {None} else min(self.masks, batch.room - 1)
        window = window_of(batch, masks)
        window.ids_RQ[:, batch.pending :].fill_(self.mask_token_id)
        return replace(window, masks=masks)

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        found = self.read_chain(batch, logits_RWV, logits_RWV.shape[1] - 1)
        if logits_RWV.shape[1] == 1:
            return AcceptResult(found, torch.ones_like(batch.length_R))
        return AcceptResult(found, batch.met(found.ids_RW, found.scores_RW, self.score))

    def sources(self, row: Row, threshold: float | None, accepted: int, columns: int) -> Sequence[Source]:
        masks = 0 if threshold is None else min(columns, row.room) - 1
        return ("clean", *repeat(MASK, masks))

    def layout_name(self, row: Row) -> str:
        return "window"


def method_of(engine: Engine, settings: DecodingSettings, decoder: str = "sliding_window") -> SlidingWindow:
    """The method that these settings ask for.

    Raises:
        ValueError: the model was not trained to fill masks, which the `decoder` needs.
    """
    return SlidingWindow(
        mask_token_id=trained_mask(engine, decoder),
        masks=settings.masks,
        fits=settings.window == "auto" and settings.masks > 0 and not engine.static_shapes,
        score=settings.score,
        alternatives=settings.alternatives,
    )
