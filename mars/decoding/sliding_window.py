"""Sliding-window decoding (arXiv 2604.07023, section 3.4): accept from the left, slide the masks behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from mars.config import DecodingSettings
from mars.decoding.base import calibration_of, trained_mask
from mars.decoding.method import AcceptResult, Batch, Method, Row
from mars.engine import Engine


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(Method):
    """The tokens accepted last are read, then `masks` masks; the last real token and each mask make a proposal.

    If it `fits` the text, a policy chooses in each pass how many of these masks a row has (mars/decoding/policy.py).

    The prediction of the last mask of a block is the extra proposal: without it that mask is not forwarded, which under
    a causal mask changes nothing for the others. The threshold is the control's at each pass; None is one-token mode.
    """

    uses_threshold: ClassVar[bool] = True
    capturable: ClassVar[bool] = True

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

    def shape(self, batch: Batch) -> tuple[int, int]:
        # One-token mode reads no mask, and no mask is forwarded whose proposal has no room in any row.
        return 0, 0 if set(batch.thresholds) == {None} else min(self.masks, batch.room - 1)

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        proposals = self.read(batch, logits_RWV, masks=logits_RWV.shape[1] - 1)
        return AcceptResult(proposals, batch.met(proposals.ids_RW, proposals.scores_RW, self.score))

    def layout_name(self, row: Row) -> str:
        return "window"


def method_of(engine: Engine, settings: DecodingSettings, decoder: str = "sliding_window") -> SlidingWindow:
    """The method that these settings ask for.

    ValueError where the model was not trained to fill masks, which the `decoder` needs.
    """
    return SlidingWindow(
        mask_token_id=trained_mask(engine, decoder),
        masks=settings.masks,
        fits=settings.window == "auto" and settings.masks > 0 and not engine.static_shapes,
        score=settings.score,
        calibration=calibration_of(engine, settings),
        alternatives=settings.alternatives,
    )
