"""Two runs on the same problems: what changed from one to the other. Shares are differences candidate − baseline.

A difference of accuracy has two intervals. The bootstrap over problems resamples each family separately, but if the
runs differ in no problem it is [0, 0], however few problems there are. The score interval (Tango, Statistics in
Medicine 17, 1998), the paired counterpart of Wilson's, is valid there too; decisions use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from analysis.stats.intervals import CONFIDENCE, Interval, share
from analysis.stats.resampling import UNDER, check_divisible, in_order, percentiles, problems_of, resampled_sums, sums

POINTS = 100.0
"""Percentage points of a share of 1."""
_EDGE = 1 - 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Accuracy of a candidate minus that of a baseline on the same `n` problems, in percentage points.

    `gained` problems only the candidate has right, `lost` only the baseline.
    """

    n: int
    gained: int
    lost: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The difference in the columns of these names of a table's row."""
        return cls(n=int(row["n"]), gained=int(row["gained"]), lost=int(row["lost"]))

    @property
    def p_value(self) -> float:
        """The exact McNemar test of no difference, two-sided."""
        from statsmodels.stats.contingency_tables import mcnemar  # slow to import, and few commands need it

        return float(mcnemar([[0, self.gained], [self.lost, 0]], exact=True).pvalue)

    def score_interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The difference in points with its score interval, two-sided.

        ValueError where there are fewer pairs than changed, or none.
        """
        n, gained, lost = self.n, self.gained, self.lost
        if n < 1 or min(gained, lost) < 0 or gained + lost > n:
            raise ValueError(f"n must be >= 1 and at least as many as changed, got {gained} + {lost} of {n}")
        tail = -ndtri((1 - confidence) / 2)
        return Interval((gained - lost) / n * POINTS, *(_limit(gained, lost, n, z) for z in (tail, -tail)))

    def loss_at_most(self, confidence: float = CONFIDENCE) -> float:
        """Upper end of the one-sided score interval of the loss, baseline − candidate, in points."""
        return -_limit(self.gained, self.lost, self.n, -ndtri(1 - confidence))

    def loss_p_value(self, points: float) -> float:
        """One-sided p of the score test that the loss is `points` or more; small if it is surely less.

        ValueError where the points are not between 0 and 100.
        """
        if not 0 < points < POINTS:
            raise ValueError(f"points must be above 0 and below 100, got {points}")
        return float(ndtr(-_score(self.gained, self.lost, self.n, -points / POINTS)))


def holm(p_values: list[float], alpha: float) -> tuple[list[float], list[float]]:
    """Holm's corrected p values, and the level at which each hypothesis was tested in the end.

    Of many settings that are tried, the luckiest looks better than it is.
    The smallest p is tested at alpha / k, the next at alpha / (k − 1), and so on until one is not rejected; the level
    of that one holds for the rest. So p <= level exactly if the corrected p <= alpha: with that confidence no setting
    that qualifies loses as much as was allowed. The fewer settings are tried, the more sensitive the test.
    """
    if len(p_values) < 2:  # nothing to correct
        return p_values, [alpha] * len(p_values)
    from statsmodels.stats.multitest import multipletests  # slow to import, and few commands need it

    rejected, corrected, *_ = multipletests(p_values, alpha, method="holm")
    levels = np.empty(len(p_values))
    levels[np.argsort(p_values, kind="stable")] = alpha / (len(p_values) - np.arange(len(p_values)))
    return corrected.tolist(), np.minimum(levels, alpha / max(1, int((~rejected).sum()))).tolist()


def _limit(gained: int, lost: int, n: int, z: float) -> float:
    """The difference, in points, at which the score is `z`; the score falls as the difference rises."""

    def excess(difference: float) -> float:
        return _score(gained, lost, n, difference) - z

    if excess(_EDGE) >= 0:
        return POINTS
    if excess(-_EDGE) <= 0:
        return -POINTS
    from scipy.optimize import brentq  # late, as in intervals.py

    return float(brentq(excess, -_EDGE, _EDGE, xtol=1e-10)) * POINTS


def _score(gained: int, lost: int, n: int, difference: float) -> float:
    """Tango's statistic: how many standard errors the counts lie above what `difference` would give.

    The share of lost problems is the most likely one for this difference: the root of a x² + b x + c.
    """
    a = 2.0 * n
    b = -gained - lost + (2 * n - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share_lost = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share_lost + difference * (1 - difference))
    excess = gained - lost - n * difference
    return excess / sqrt(variance) if variance > 0 else float(np.sign(excess)) * np.inf if excess else 0.0


def paired(*runs: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of runs on the same problems, each in the same order.

    ValueError where a run has other problems than the first.
    """
    ordered = [in_order(rows) for rows in runs]
    problems = [problems_of(rows) for rows in ordered]
    for other in problems[1:]:
        if other != problems[0]:
            raise ValueError(
                f"runs must be on the same problems to be compared, got {len(problems[0])} and {len(other)}, "
                f"of which {len({*problems[0]} & {*other})} in both"
            )
    return ordered


def paired_difference(candidate: pd.DataFrame, baseline: pd.DataFrame) -> PairedDifference:
    """The gain or loss of the candidate in accuracy.

    ValueError where the runs are not on the same problems, or on none.
    """
    ours, theirs = paired(candidate, baseline)
    right, was_right = ours["correct"].to_numpy(dtype=bool), theirs["correct"].to_numpy(dtype=bool)
    gained, lost = int((right & ~was_right).sum()), int((~right & was_right).sum())
    return PairedDifference(n=len(ours), gained=gained, lost=lost)


def contrast(parts: Sequence[tuple[float, pd.DataFrame]]) -> Interval:
    """The sum of accuracies of runs on the same problems, each times its factor: points with a bootstrap interval.

    ValueError where the runs are not on the same problems.
    """
    runs = paired(*(rows for _, rows in parts))
    changes = sum(factor * rows["correct"].to_numpy(dtype=float) for (factor, _), rows in zip(parts, runs, strict=True))
    drawn = resampled_sums(runs[0], np.asarray(changes)[:, None])[:, 0]
    return percentiles(np.mean(changes), drawn / len(runs[0])).scaled(POINTS)


def speed_up(
    candidate: pd.DataFrame,
    baseline: pd.DataFrame,
    speed: str = "tokens_per_second",
    confidence: float = CONFIDENCE,
) -> Interval:
    """The speed of the candidate over the baseline's; the problems are resampled in the same way for both.

    For throughput the ratio has a meaning only if the two took turns on one machine: runs of one group. ValueError
    where the speed is unknown, the runs are not on the same problems, or rows took no time.
    """
    if speed not in UNDER:
        raise ValueError(f"speed must be one of {', '.join(UNDER)}, got {speed!r}")
    ours, theirs = paired(candidate, baseline)
    (total, drawn), (total_before, drawn_before) = (
        sums(ours, rows, ("tokens", UNDER[speed])) for rows in (ours, theirs)
    )
    check_divisible(drawn[:, 1], UNDER[speed])
    check_divisible(drawn_before, f"tokens and {UNDER[speed]}")
    value = total[0] / total[1] * total_before[1] / total_before[0]
    factors = drawn[:, 0] / drawn[:, 1] * drawn_before[:, 1] / drawn_before[:, 0]
    return percentiles(value, factors, confidence)


def speed_up_of_means(candidate: pd.DataFrame, baseline: pd.DataFrame) -> Interval:
    """Spec-Bench's speed-up: the ratio of two means over questions of tokens per second; rows in the same order."""
    (total, drawn), (before, drawn_before) = (
        sums(candidate, rows.assign(speed=rows["tokens"] / rows["seconds"]), ["speed"])
        for rows in (candidate, baseline)
    )
    return percentiles(total[0] / before[0], drawn[:, 0] / drawn_before[:, 0])


def identical_texts(candidate: pd.DataFrame, baseline: pd.DataFrame) -> Interval:
    """Share of the problems with the same text as the baseline, with its Wilson interval.

    ValueError where the runs are not on the same problems.
    """
    ours, theirs = paired(candidate, baseline)
    return share(int((ours["text"] == theirs["text"]).sum()), len(ours))
