"""The bootstrap over problems: against scipy's, its coverage, and that families keep their sizes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

from analysis.stats.resampling import accuracy, in_order, resampled_sums, tokens_per_forward, tokens_per_second

Counts = Sequence[int] | np.ndarray


def rows(tokens: Counts, passes: Counts, tasks: Sequence[str] = ()) -> pd.DataFrame:
    count = len(tokens)
    return pd.DataFrame(
        {
            "task": list(tasks) or ["logic"] * count,
            "number": range(count),
            "correct": [True] * count,
            "tokens": tokens,
            "passes": passes,
            "seconds": np.asarray(passes, dtype=float) / 10,
        }
    )


def test_ratio_of_sums_is_no_mean_of_ratios() -> None:
    found = tokens_per_forward(rows([10, 30], [10, 10]))
    assert (found.value, found.low, found.high) == (2.0, 1.0, 3.0)
    assert tokens_per_second(rows([10, 30], [10, 10])).value == pytest.approx(20.0)


def test_agrees_with_scipy() -> None:
    chance = np.random.default_rng(3)
    tokens, passes = chance.integers(20, 60, 80), chance.integers(8, 30, 80)
    theirs = bootstrap(
        (tokens, passes),
        lambda over, under, axis: over.sum(axis=axis) / under.sum(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=5000,
        rng=1,
    ).confidence_interval
    ours = tokens_per_forward(rows(tokens, passes))
    half = (theirs.high - theirs.low) / 2
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.1 * half)


def test_intervals_cover_as_often_as_they_say() -> None:
    chance, hits, trials = np.random.default_rng(5), 0, 200
    for _ in range(trials):
        passes = chance.integers(5, 25, 60)
        interval = tokens_per_forward(rows(passes * 2 + chance.integers(-4, 5, 60), passes))
        hits += interval.low <= 2.0 <= interval.high
    assert 0.90 <= hits / trials <= 0.985


def test_families_keep_their_sizes() -> None:
    frame = in_order(rows([1] * 7 + [100] * 3, [1] * 10, ["a"] * 7 + ["b"] * 3))
    drawn = resampled_sums(frame, np.column_stack([frame["task"] == "a", frame["task"] == "b", frame["tokens"]]))
    assert (drawn == [7, 3, 307]).all()


def test_same_problems_same_resamples_in_any_order() -> None:
    frame = rows([5, 9, 2, 7], [1, 2, 3, 4])
    values = np.arange(4.0)[:, None]
    assert (resampled_sums(frame, values) == resampled_sums(frame, values)).all()
    shuffled = frame.sample(frac=1, random_state=1)
    assert tokens_per_forward(shuffled) == tokens_per_forward(frame)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="at least one problem"):
        tokens_per_forward(rows([], []))
    with pytest.raises(ValueError, match="logic 0 twice"):
        accuracy(pd.concat([rows([1], [1]), rows([1], [1])]))
    with pytest.raises(ValueError, match="passes must be above 0"):
        tokens_per_forward(rows([3, 4], [0, 0]))
