"""The Wilson interval, against its formula, and the bootstrap interval of a median, against scipy's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from analysis.stats.intervals import Estimate, share

Z = 1.959963984540054


@given(st.integers(1, 2_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_equals_the_formula(counts: tuple[int, int]) -> None:
    successes, n = counts
    value = successes / n
    middle = (value + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(value * (1 - value) / n + Z**2 / (4 * n**2))
    found = share(successes, n)
    assert found.low == pytest.approx(max(0.0, middle - half), abs=1e-9)
    assert found.high == pytest.approx(min(1.0, middle + half), abs=1e-9)
    assert 0 <= found.low <= found.value == value <= found.high <= 1


def test_estimates_are_medians_with_intervals_inside_measurements() -> None:
    estimate = Estimate.of([3.0, 1.0, 2.0, 5.0, 4.0])
    assert estimate.median == 3.0
    assert 1.0 <= estimate.low < 3.0 < estimate.high <= 5.0
    assert estimate == Estimate.of([3.0, 1.0, 2.0, 5.0, 4.0])


def test_estimate_of_equal_values_is_sure() -> None:
    assert Estimate.of([2.5] * 5) == Estimate(2.5, 2.5, 2.5)
    assert Estimate.of([1]) == Estimate(1.0, 1.0, 1.0)


def test_estimate_agrees_with_scipy() -> None:
    values = [0.9, 1.1, 1.0, 1.3, 1.2, 0.7, 1.05, 1.15, 0.95, 1.25, 1.01]
    theirs = bootstrap((values,), np.median, method="percentile", n_resamples=20_000, rng=1).confidence_interval
    ours = Estimate.of(values)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=0.051)


def test_estimate_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        Estimate.of([])
