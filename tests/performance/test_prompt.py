"""The measurement of a long prompt's arrival, on the small shipped model."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars.checkpoint import load_checkpoint
from tests.performance import prompt

CHECKPOINT = Path(__file__).parents[2] / "assets" / "checkpoints" / "mars-b8"


@pytest.mark.parametrize(("beside", "fewest"), [(False, 1), (True, 4)])
def test_rows_write_while_a_prompt_is_read(one_thread: None, beside: bool, fewest: int) -> None:
    waits, seconds = prompt.measure(load_checkpoint(CHECKPOINT), "autoregressive", 2, 300, beside=beside)
    assert len(waits) >= 2 * fewest
    assert 0 < max(waits) <= seconds


def test_a_second_prompt_with_the_same_beginning_is_sooner_answered(one_thread: None) -> None:
    checkpoint = load_checkpoint(CHECKPOINT)
    assert len(prompt.long_text(checkpoint, 600)) == 600
    fresh, second = prompt.shared(checkpoint, "autoregressive", 600)
    assert second < fresh
