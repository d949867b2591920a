"""Pareto frontier of settings, what can be said of each within the intervals, and the area under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.stats.pairs import paired
from analysis.stats.resampling import UNDER, check_divisible, percentiles, sums

Direction = Literal["up", "down"]
State = Literal["frontier", "dominated", "undecided"]
MEASURES = ("accuracy", *UNDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The standing of a point. `by` is the point that dominates it, or that may; None on the frontier.

    dominated: `by` is better beyond both intervals in one direction, and at least as good by value in the others.
    undecided: `by` is at least as good by value in all directions and better in one, but not beyond the intervals; or
    better beyond them in one, and behind in another by no more than they allow. frontier: neither.
    `best_by_value` is the plain Pareto frontier, in which the intervals count for nothing.
    """

    name: str
    state: State
    by: str | None
    best_by_value: bool


def standings(points: Mapping[str, Mapping[str, Interval]], directions: Mapping[str, Direction]) -> list[Standing]:
    """One standing per point, in their order; `points` has the measures of each by name, `directions` says which way.

    A value without an interval is given as one of no width. The intervals are taken as they are, so that two runs on
    the same problems, which differ by less than their intervals say, are rather left undecided.

    Raises:
        ValueError: no direction, one that is neither up nor down, or a point without one of the measures.
    """
    _check_directions(list(directions.values()))
    for name, measures in points.items():
        if missing := [measure for measure in directions if measure not in measures]:
            raise ValueError(f"every point needs {', '.join(directions)}, got {name} without {missing[0]}")
    turned = {
        name: [measures[measure].scaled(1 if way == "up" else -1) for measure, way in directions.items()]
        for name, measures in points.items()
    }
    return [_standing(name, turned) for name in turned]


def _standing(name: str, points: Mapping[str, Sequence[Interval]]) -> Standing:
    own = points[name]
    others = {other: theirs for other, theirs in points.items() if other != name}
    surely = [other for other, theirs in others.items() if _surely_ahead(theirs, own) and _no_worse(theirs, own)]
    by_value = [other for other, theirs in others.items() if _no_worse(theirs, own) and not _no_worse(own, theirs)]
    perhaps = [
        other for other, theirs in others.items() if _surely_ahead(theirs, own) and not _surely_ahead(own, theirs)
    ]
    rivals = surely or by_value or perhaps
    state: State = "dominated" if surely else "undecided" if rivals else "frontier"
    return Standing(name=name, state=state, by=rivals[0] if rivals else None, best_by_value=not by_value)


def _surely_ahead(ours: Sequence[Interval], theirs: Sequence[Interval]) -> bool:
    return any(mine.surely_above(other) for mine, other in zip(ours, theirs, strict=True))


def _no_worse(ours: Sequence[Interval], theirs: Sequence[Interval]) -> bool:
    return all(mine.value >= other.value for mine, other in zip(ours, theirs, strict=True))


def area(
    points: Sequence[tuple[float, float]],
    *,
    reference: tuple[float, float],
    directions: tuple[Direction, Direction] = ("up", "up"),
) -> float:
    """Hypervolume in two directions: the area between the frontier of the points and a reference worse than them.

    Points that are worse than the reference in a direction add nothing.

    Raises:
        ValueError: a direction that is neither up nor down.
    """
    values = np.asarray(points, dtype=float).reshape(1, -1, 2)
    return float(_areas(values, reference, directions)[0])


def measured_area(
    runs: Mapping[str, pd.DataFrame],
    *,
    measures: tuple[str, str] = ("accuracy", "tokens_per_forward"),
    reference: tuple[float, float],
    confidence: float = CONFIDENCE,
) -> Interval:
    """The area under the frontier of runs on the same problems, with a bootstrap interval over problems.

    The best of several resampled points is a little better than the best of the points, so the interval leans upwards.

    Raises:
        ValueError: no runs, an unknown measure, or runs on other problems.
    """
    values, drawn = resampled_points(list(runs.values()), measures)
    ways: tuple[Direction, Direction] = ("up", "up")
    return percentiles(_areas(values[None], reference, ways)[0], _areas(drawn, reference, ways), confidence)


def resampled_points(
    runs: Sequence[pd.DataFrame], measures: Sequence[str] = ("accuracy", "tokens_per_forward")
) -> tuple[np.ndarray, np.ndarray]:
    """Measures of runs on the same problems: as they are [run, measure], and in each resample [draw, run, measure].

    Raises:
        ValueError: no runs, an unknown measure, or runs on other problems.
    """
    if not runs:
        raise ValueError("a frontier needs at least one run, got none")
    if unknown := [measure for measure in measures if measure not in MEASURES]:
        raise ValueError(f"measures must be some of {', '.join(MEASURES)}, got {unknown[0]!r}")
    ordered = paired(*runs)
    found = [[_measured(ordered[0], rows, measure) for measure in measures] for rows in ordered]
    values = np.array([[value for value, _ in row] for row in found])
    return values, np.stack([np.stack([drawn for _, drawn in row], axis=-1) for row in found], axis=1)


def speed_at_loss(
    runs: Sequence[pd.DataFrame], baseline: pd.DataFrame, points: float, speed: str = "tokens_per_forward"
) -> tuple[float, np.ndarray]:
    """The speed reached at a loss of so many points against the baseline, as it is and in each resample.

    Between neighbours on the frontier the speed is interpolated: to run each on a part of the problems reaches about
    that. The baseline belongs to the frontier; beyond the last point it does not rise. Frontiers of settings that do
    not meet at any accuracy can be compared by it.

    Raises:
        ValueError: as for `resampled_points`, or the points are below 0.
    """
    if points < 0:
        raise ValueError(f"points must be >= 0, got {points}")
    values, drawn = resampled_points([baseline, *runs], ("accuracy", speed))
    return _at_loss(values, points), np.array([_at_loss(sample, points) for sample in drawn])


def _at_loss(points: np.ndarray, loss: float) -> float:
    """`points` [run, (accuracy, speed)], the baseline first."""
    by_speed = points[np.argsort(points[:, 1], kind="stable")]
    best = np.maximum.accumulate(by_speed[::-1, 0])[::-1]  # the best accuracy at this speed or above
    losses = points[0, 0] - best
    return float(np.interp(loss / 100 + 1e-12, losses, by_speed[:, 1]))


def _measured(like: pd.DataFrame, rows: pd.DataFrame, measure: str) -> tuple[float, np.ndarray]:
    if measure == "accuracy":
        total, drawn = sums(like, rows, ["correct"])
        return float(total[0]) / len(rows), drawn[:, 0] / len(rows)
    total, drawn = sums(like, rows, ["tokens", UNDER[measure]])
    check_divisible(drawn[:, 1], UNDER[measure])
    return float(total[0] / total[1]), drawn[:, 0] / drawn[:, 1]


def _areas(points: np.ndarray, reference: tuple[float, float], directions: tuple[Direction, Direction]) -> np.ndarray:
    """Of points [draw, point, 2]: the area that they cover together, each a rectangle from the reference [draw]."""
    _check_directions(directions)
    signs = np.array([1 if way == "up" else -1 for way in directions])
    sides = np.maximum((points - np.asarray(reference)) * signs, 0)
    sides = np.where(sides.min(axis=-1, keepdims=True) > 0, sides, 0)
    order = np.argsort(-sides[..., 0], axis=1, kind="stable")
    width, height = (np.take_along_axis(sides[..., axis], order, axis=1) for axis in (0, 1))
    steps = width - np.concatenate([width[:, 1:], np.zeros((len(width), 1))], axis=1)
    return (steps * np.maximum.accumulate(height, axis=1)).sum(axis=1)


def _check_directions(directions: Sequence[str]) -> None:
    wrong = [way for way in directions if way not in get_args(Direction)]
    if wrong or not directions:
        raise ValueError(f"directions must be up or down, got {wrong[0] if wrong else 'none'}")
