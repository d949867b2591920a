"""Bootstrap over problems: sums over the rows of a run, resampled family by family.

The problems are the random sample: their seeds are drawn, and other seeds would have given other problems. The
resamples depend only on the number of problems of each family, so runs on the same problems are resampled in the same
way, which keeps comparisons paired. These intervals do not cover the variation of the machine between two timings;
`analysis bench` repeats its rounds to cover that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pandas as pd

from analysis.stats.intervals import CONFIDENCE, Interval, share

DRAWS = 2_000
"""Resamples: the ends of an interval from so many are off by about 3 % of its half-width."""
SEED = 0
_CHUNK = 2**22


def problems_of(rows: pd.DataFrame) -> list[tuple[str, int]]:
    """The problem of each row: family and number."""
    return list(zip(rows["task"].tolist(), rows["number"].tolist(), strict=True))


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows sorted by family and number, as all functions here want them.

    ValueError where there are none, or a problem is there twice.
    """
    if rows.empty:
        raise ValueError("a run needs at least one problem, got none")
    problems = problems_of(rows)
    if all(first < second for first, second in pairwise(problems)):
        return rows
    if len(set(problems)) < len(problems):
        task, number = next(first for first, second in pairwise(sorted(problems)) if first == second)
        raise ValueError(f"each problem must appear once, got {task} {number} twice")
    return rows.sort_values(["task", "number"], ignore_index=True)


def resampled_sums(rows: pd.DataFrame, values: np.ndarray) -> np.ndarray:
    """Sums of `values` [problem, column] over each resample: [draw, column]. `rows` (in order) say which family."""
    sizes = tuple(Counter(rows["task"].tolist()).values())
    return _weights(sizes) @ np.asarray(values, dtype=float)


@lru_cache(maxsize=2)
def _weights(sizes: tuple[int, ...]) -> np.ndarray:
    """The count of each problem in each resample [draw, problem]; families keep their sizes."""
    return np.concatenate([_stratum(size, index) for index, size in enumerate(sizes)], axis=1)


def _stratum(size: int, index: int) -> np.ndarray:
    random, step = np.random.default_rng((SEED, index)), max(1, _CHUNK // size)
    parts = []
    for first in range(0, DRAWS, step):
        count = min(step, DRAWS - first)
        drawn = random.integers(0, size, (count, size)) + size * np.arange(count)[:, None]
        parts.append(np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size).astype(float))
    return np.concatenate(parts)


def percentiles(value: float, drawn: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """A value with the percentile interval of its resamples."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Interval(float(value), float(low), float(high))


def ratio_of_sums(rows: pd.DataFrame, over: str, under: str, confidence: float = CONFIDENCE) -> Interval:
    """The sum of one column over that of another, with its interval.

    ValueError where there are no rows, or a resample has nothing to divide by.
    """
    rows = in_order(rows)
    total, drawn = sums(rows, rows, [over, under])
    check_divisible(drawn[:, 1], under)
    return percentiles(total[0] / total[1], drawn[:, 0] / drawn[:, 1], confidence)


def sums(like: pd.DataFrame, rows: pd.DataFrame, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of columns of a run: as they are [column], and over resamples of the problems of `like` [draw, column]."""
    values = rows[list(columns)].to_numpy(dtype=float)
    return values.sum(axis=0), resampled_sums(like, values)


def check_divisible(drawn: np.ndarray, name: str) -> None:
    """Raise ValueError if a resample has nothing to divide by."""
    if (drawn <= 0).any():
        raise ValueError(f"{name} must be above 0 in most rows, got resamples in which all are 0")


def accuracy(rows: pd.DataFrame) -> Interval:
    """Share of the problems that are right, 0 to 1, with its Wilson interval; ValueError where there are no rows."""
    rows = in_order(rows)
    return share(int(rows["correct"].sum()), len(rows))


def tokens_per_forward(rows: pd.DataFrame, confidence: float = CONFIDENCE) -> Interval:
    """Tokens over decode and verify passes; ValueError as for `ratio_of_sums`."""
    return ratio_of_sums(rows, "tokens", "passes", confidence)


def tokens_per_second(rows: pd.DataFrame) -> Interval:
    """Throughput: tokens over the rows' shares of the wall-clock seconds; ValueError as for `ratio_of_sums`."""
    return ratio_of_sums(rows, "tokens", "seconds")


UNDER = {"tokens_per_forward": "passes", "tokens_per_second": "seconds"}
"""The seconds by which each speed divides the tokens."""
