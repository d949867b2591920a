"""A value with its interval, and the intervals that need no more than counts or repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured value and the interval that it lies in, NaN where there is none."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def columns(self, name: str) -> dict[str, float]:
        """The same as columns."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def surely_above(self, number: float) -> bool:
        """Whether the whole interval lies above this number."""
        return self.low > number

    def surely_below(self, number: float) -> bool:
        """Whether the whole interval lies below this number."""
        return self.high < number

    def scaled(self, factor: float) -> Interval:
        """The same in another unit, so points for shares; a negative factor swaps the ends."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.value * factor, low, high)


def share(successes: int, trials: int) -> Interval:
    """A proportion with its 95 % Wilson score interval.

    ValueError where there are no trials, or more successes than trials.
    """
    from scipy.stats import binomtest  # late: it takes a second, and the page starts without it

    interval = binomtest(successes, trials).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(successes / trials, float(interval.low), float(interval.high))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of repeated measurements with a 95 % percentile bootstrap interval of it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The estimate from one value per repeat; the same values always give the same interval.

        ValueError where there are no values.
        """
        if not values:
            raise ValueError("an estimate needs at least one value, got none")
        measured = np.asarray(values, dtype=float)
        drawn = np.random.default_rng(0).choice(measured, size=(RESAMPLES, len(measured)))
        tail = 50 * (1 - CONFIDENCE)
        low, high = np.percentile(np.median(drawn, axis=1), [tail, 100 - tail])
        return cls(float(np.median(measured)), float(low), float(high))
