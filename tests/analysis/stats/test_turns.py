"""Speed-ups over turns: the machine is in the interval."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.pairs import speed_up
from analysis.stats.turns import over_turns

TURNS, EACH = 12, 30


def _rows(seed: int, speed: float, machine: float = 0.0, slope: float = 0.0) -> pd.DataFrame:
    """Problems with tokens of their own; each turn is slower or faster by a draw, and by a slope over the turns."""
    tokens = np.random.default_rng(0).integers(20, 60, TURNS * EACH)
    factor = np.exp(np.random.default_rng(seed).normal(0, machine, TURNS) + slope * np.arange(TURNS))
    turn = np.repeat(np.arange(TURNS), EACH)
    seconds = tokens / speed * factor[turn] * np.exp(np.random.default_rng(seed + 1).normal(0, 0.05, len(tokens)))
    return pd.DataFrame(
        {"task": "x", "number": np.arange(len(tokens)), "tokens": tokens, "seconds": seconds, "turn": turn}
    )


def test_the_interval_holds_the_machine() -> None:
    quiet = over_turns(_rows(1, 150.0), _rows(11, 100.0))
    rough = over_turns(_rows(1, 150.0, machine=0.1), _rows(11, 100.0, machine=0.1))
    assert quiet is not None
    assert rough is not None
    assert quiet.value == pytest.approx(1.5, rel=0.02)
    assert rough.high - rough.low > 4 * (quiet.high - quiet.low)
    by_problems = speed_up(_rows(1, 150.0, machine=0.1), _rows(11, 100.0, machine=0.1))
    assert rough.high - rough.low > 2 * (by_problems.high - by_problems.low)


def test_intervals_are_right_as_often_as_said() -> None:
    found = [over_turns(_rows(seed, 150.0, machine=0.1), _rows(seed + 500, 100.0, machine=0.1)) for seed in range(100)]
    right = sum(each is not None and each.low <= 1.5 <= each.high for each in found)
    assert 90 <= right <= 99
