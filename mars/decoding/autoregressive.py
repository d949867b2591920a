"""Autoregressive decoding: one token a pass, the baseline of everything else."""

from __future__ import annotations

from collections.abc import Iterator

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts, check, slide
from mars.engine import Engine
from mars.records import ForwardPass


def autoregressive(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """Greedy decoding, one token a row and pass; any checkpoint. Thresholds are ignored: every record carries None.

    Raises:
        ValueError: at the call, for prompts that are empty or do not fit the context.
    """
    check(engine, prompts, settings)
    return slide(engine, prompts, settings, control or Control(None), masks=None)
