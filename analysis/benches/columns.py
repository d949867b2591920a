"""Seconds of one pass by its columns, on one row of a model: what a mask or a draft more costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch

from analysis.benches.bench import interleaved
from analysis.stats.intervals import Estimate
from mars.engine.engine import Engine, Rows
from mars.engine.window import Window

PASSES = 10


def column_times(
    engine: Engine,
    columns: Sequence[int],
    context: int,
    repeats: int,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[int, Estimate]:
    """The seconds of passes of each width behind `context` cached positions, in turns after an uncounted round.

    ValueError where the context and the widest pass do not fit the model.
    """
    needed = context + max(columns)
    if needed > engine.context_length:
        raise ValueError(f"context + columns must be <= the context length of {engine.context_length}, got {needed}")
    rows = engine.open(1, needed)
    measures = {width: partial(_seconds, engine, rows, _window(engine, context, width)) for width in columns}
    return {width: Estimate.of(seconds) for width, seconds in interleaved(measures, repeats, progress).items()}


def _window(engine: Engine, context: int, columns: int) -> Window:
    slots_1Q = torch.arange(context + 1, context + columns + 1, device=engine.device)[None]
    return Window(ids_RQ=torch.zeros_like(slots_1Q), slots_RQ=slots_1Q, extent=context + columns + 1, keep=columns)


def _seconds(engine: Engine, rows: Rows, window: Window) -> float:
    """The median of a few passes."""
    seconds = []
    for _ in range(PASSES):
        with engine.clock() as clock:
            rows.forward(window)
        seconds.append(clock.seconds)
    return median(seconds)
