"""Operating point: the fastest setting whose loss of accuracy is surely under so many points.

Many settings are tried, and the luckiest of many looks better than it is. So a setting qualifies only if the score test
(`analysis.stats.pairs`) rejects "it loses that much or more" after Holm's correction over all candidates: with 95 %
confidence, no setting that qualifies loses as much as was allowed. The fewer candidates, the more sensitive the test:
leave out settings that nobody would run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.stats.pairs import PairedDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A setting that was tried. `loss_at_most` is the upper limit of its loss in points, corrected as the test was."""

    name: str
    speed: Interval
    difference: PairedDifference
    loss_at_most: float
    qualifies: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """The chosen setting, None if none qualifies, among `candidates`, the fastest first."""

    chosen: Candidate | None
    candidates: tuple[Candidate, ...]


def chosen_among(measured: Mapping[str, tuple[Interval, PairedDifference]], *, points: float) -> OperatingPoint:
    """Choose among runs, given by name with their speed and their difference from one baseline.

    Raises:
        ValueError: the points are out of range.
    """
    raw = [difference.loss_p_value(points) for _, difference in measured.values()]
    corrected, levels = holm(raw, 1 - CONFIDENCE)
    tried = [
        Candidate(
            name=name,
            speed=speed,
            difference=difference,
            loss_at_most=difference.loss_at_most(1 - level),
            qualifies=p_value <= 1 - CONFIDENCE,
        )
        for (name, (speed, difference)), p_value, level in zip(measured.items(), corrected, levels, strict=True)
    ]
    order = sorted(range(len(tried)), key=lambda i: (-tried[i].speed.value, raw[i], tried[i].name))
    candidates = tuple(tried[i] for i in order)
    chosen = next((candidate for candidate in candidates if candidate.qualifies), None)
    return OperatingPoint(chosen=chosen, candidates=candidates)


def holm(p_values: list[float], alpha: float) -> tuple[list[float], list[float]]:
    """Holm's corrected p values, and the level at which each hypothesis was tested in the end.

    The smallest p is tested at alpha / k, the next at alpha / (k − 1), and so on until one is not rejected; the level
    of that one holds for the rest. So p <= level exactly if the corrected p <= alpha.
    """
    if not p_values:
        return [], []
    count, order = len(p_values), np.argsort(p_values, kind="stable")
    corrected, levels = np.empty(count), np.empty(count)
    factors = count - np.arange(count)
    corrected[order] = np.minimum(1, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    stop = alpha / max(1, count - int((corrected <= alpha).sum()))
    levels[order] = np.minimum(alpha / factors, stop)
    return [float(p) for p in corrected], [float(level) for level in levels]
