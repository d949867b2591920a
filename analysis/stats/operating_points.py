"""Operating point: the fastest setting whose loss of accuracy is surely under so many points.

Many settings are tried, and the luckiest of many looks better than it is. So a setting qualifies only where the score
test (`analysis.stats.pairs`) of "it loses that much or more" is rejected after Holm's correction over all candidates:
with 95 % confidence, no setting that qualifies loses as much as was allowed. To try fewer is to be surer: leave out
settings that nobody would run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.stats.intervals import CONFIDENCE, Interval, check_confidence
from analysis.stats.pairs import PairedDifference, paired_difference
from analysis.stats.resampling import SPEEDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A setting that was tried. `loss_at_most` is the upper limit of its loss in points, corrected as the test was.

    `p_value` is that of "it loses the points allowed or more", after Holm's correction.
    """

    name: str
    speed: Interval
    difference: PairedDifference
    loss_at_most: float
    p_value: float
    qualifies: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """The chosen setting, None if none qualifies, among `candidates`, the fastest first."""

    points: float
    confidence: float
    speed: str
    chosen: Candidate | None
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        tried = f"{len(self.candidates)} setting{'s' * (len(self.candidates) != 1)} tried"
        if self.chosen is None:
            least = f"{self.points:g} point{'s' * (self.points != 1)}"
            return f"no setting surely loses less than {least} ({tried}): stay with the baseline"
        return (
            f"{self.chosen.name}: {_words(self.speed)} {_interval(self.chosen.speed)}, "
            f"loses {_loss(self.chosen)} ({self.confidence:.0%} confidence, {tried})"
        )


def operating_point(
    candidates: Mapping[str, pd.DataFrame],
    baseline: pd.DataFrame,
    *,
    points: float,
    speed: str = "tokens_per_forward",
    confidence: float = CONFIDENCE,
) -> OperatingPoint:
    """Choose among runs by name, all on the problems of the baseline.

    Raises:
        ValueError: a run is on other problems, the speed is unknown, or points or confidence are out of range.
    """
    if speed not in SPEEDS:
        raise ValueError(f"speed must be one of {', '.join(SPEEDS)}, got {speed!r}")
    measured = {
        name: (SPEEDS[speed](rows), paired_difference(rows, baseline, confidence)) for name, rows in candidates.items()
    }
    return chosen_among(measured, points=points, speed=speed, confidence=confidence)


def chosen_among(
    measured: Mapping[str, tuple[Interval, PairedDifference]],
    *,
    points: float,
    speed: str,
    confidence: float = CONFIDENCE,
) -> OperatingPoint:
    """The same of runs whose speed, called `speed`, and difference from one baseline are known.

    Raises:
        ValueError: points or confidence are out of range.
    """
    check_confidence(confidence)
    names = list(measured)
    speeds = [measured[name][0] for name in names]
    differences = [measured[name][1] for name in names]
    raw = [difference.loss_p_value(points) for difference in differences]
    corrected, levels = holm(raw, 1 - confidence)
    order = sorted(range(len(names)), key=lambda i: (-speeds[i].value, raw[i], names[i]))
    qualifying = [i for i in order if corrected[i] <= 1 - confidence]
    found = []
    for i in order:
        at_most = differences[i].loss_at_most(1 - levels[i])
        found.append(
            Candidate(
                name=names[i],
                speed=speeds[i],
                difference=differences[i],
                loss_at_most=at_most,
                p_value=corrected[i],
                qualifies=i in qualifying,
                reason=_reason(speeds, i, qualifying, -differences[i].points.value, at_most, points),
            )
        )
    chosen = next((candidate for candidate in found if candidate.qualifies), None)
    return OperatingPoint(points=points, confidence=confidence, speed=speed, chosen=chosen, candidates=tuple(found))


def holm(p_values: list[float], alpha: float) -> tuple[list[float], list[float]]:
    """Holm's corrected p values, and the level at which each hypothesis was in the end tested.

    The smallest p is tested at alpha / k, the next at alpha / (k − 1), and so on until one is not rejected; that one's
    level holds for the rest. So p <= level exactly where the corrected p <= alpha.
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


def _reason(speeds: list[Interval], i: int, qualifying: list[int], loss: float, at_most: float, points: float) -> str:
    limit = f"may lose {at_most:.2f} points" if loss < points else f"loses {loss:.2f} points, perhaps {at_most:.2f}"
    if i not in qualifying:
        return f"refused: {limit}, and less than {points:g} was asked for"
    if i == qualifying[0]:
        return "chosen: the fastest that qualifies"
    close = speeds[i].high >= speeds[qualifying[0]].low
    return f"qualifies, but {'may be' if close else 'is'} slower"


def _loss(candidate: Candidate) -> str:
    return f"{-candidate.difference.points.value:.2f} points, surely less than {candidate.loss_at_most:.2f}"


def _interval(interval: Interval) -> str:
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _words(speed: str) -> str:
    return speed.replace("_", " ")
