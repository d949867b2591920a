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


def test_quantiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [prompt.quantile(values, share) for share in (0.5, 0.99, 1)] == [50, 99, 100]
    assert prompt.quantile([3.0], 0.5) == 3
