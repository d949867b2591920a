"""A threshold that changes, a stop, and a model that cannot run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.scripted import Diffusing, ScriptedModel
from tests.readers import Chance

Make = Callable[..., Any]
DIFFUSION = DECODERS["block_diffusion"]


def test_a_new_threshold_acts_from_the_next_pass() -> None:
    control = Control(None)
    engine = Diffusing(ScriptedModel(lambda row, position, masks: (5, 0.6)), 4)
    stream = DIFFUSION(engine, [[3] * 4], DecodingSettings(block_size=4), control)
    next(stream)
    first = next(stream)
    control.threshold = 0.5
    second = next(stream)
    assert [(record.rows[0].threshold, record.rows[0].accepted) for record in (first, second)] == [(None, 0), (0.5, 4)]


@pytest.mark.parametrize("passes", [0, 1, 2, 5])
def test_stop_ends_the_run_before_the_next_call(engine_of: Make, passes: int) -> None:
    engine, control = engine_of(Chance(1), 4), Control(None)
    stream = DIFFUSION(engine, [[4] * 5], DecodingSettings(block_size=4), control)
    for _ in range(passes):
        next(stream)
    control.stop()
    assert list(stream) == []
    assert len(engine.model.calls) == passes


@pytest.mark.parametrize(
    ("call", "threshold", "reasons"),
    [
        (1, 0.5, ["cancelled", "cancelled"]),
        (2, 0.5, ["stop", "cancelled"]),
        (2, None, ["cancelled", "cancelled"]),
    ],
)
def test_stop_during_a_pass_cancels_unfinished_rows(call: int, threshold: float | None, reasons: list[str]) -> None:
    class Stopping(ScriptedModel):
        def record(self, call_: object) -> None:
            super().record(call_)  # type: ignore[arg-type]
            if len(self.calls) == call:
                control.stop()

    control, model = Control(threshold), Stopping([[5, 2], [6, 7, 8]])
    records = list(DIFFUSION(Diffusing(model, 2), [[3], [3]], DecodingSettings(block_size=2), control))
    assert len(records) == len(model.calls) == call
    assert [part.finish_reason for part in records[-1].rows] == reasons


def test_a_causal_model_is_refused() -> None:
    with pytest.raises(ValueError, match="was not trained by block diffusion"):
        DIFFUSION(ScriptedModel([[5]]), [[3]], DecodingSettings())
