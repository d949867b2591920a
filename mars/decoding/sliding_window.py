"""Sliding-window decoding (arXiv 2604.07023, section 3.4): accept from the left, slide the masks behind it."""

from __future__ import annotations

from collections.abc import Iterator

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts, check, slide
from mars.engine import Engine
from mars.records import ForwardPass


def sliding_window(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """Each pass proposes `block_size` tokens a row (one more with `extra_proposal`) and accepts a prefix of them.

    The prediction of the last mask is the extra proposal: without it that mask is not forwarded, which under a causal
    mask changes nothing for the others. The threshold is the control's at each pass; None is one-token mode.

    Raises:
        ValueError: at the call, for prompts that are empty or do not fit the context, or a model without masks.
    """
    if engine.mask_token_id is None:
        raise ValueError(
            "this checkpoint was not trained to fill masks: sliding_window needs one with a trained <|mask|> token "
            "(made by `python -m mars.training mars`, or a published MARS blk4, blk8 or blk16); use autoregressive"
        )
    check(engine, prompts, settings)
    control = control or Control(settings.threshold, settings.score)
    return slide(engine, prompts, settings, control, settings.block_size - (not settings.extra_proposal))
