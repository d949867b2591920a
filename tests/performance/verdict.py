"""What a load test shows: goodput of lanes over one another, speed and accuracy for users, each with an interval.

Lanes get the same arrivals, so each request is compared with itself. Requests in one queue wait for each other, so they
are resampled in runs that arrived one after the other. Where no request differs between two lanes, resampling does not
see how few there are; the score interval of pairs does. An interval here has the outer ends of both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

import numpy as np

from analysis.runs.loads import Comparison, Faster, InTime
from analysis.stats.intervals import RESAMPLES, Interval, student
from analysis.stats.pairs import POINTS, PairedDifference
from analysis.stats.resampling import percentiles
from tests.performance.asking import Asked
from tests.performance.traces import Answers

PART, GAIN = 0.97, 1.4
"""The part of the best fixed setting's goodput that `exact` must reach, and what its users must gain at little load."""
LITTLE = 0.3
"""The most of saturation that is little load."""
Turns = Sequence[Answers]
"""The answers of a lane to a load, turn by turn."""


def is_in_time(asked: Asked, limits: InTime) -> bool:
    """Whether an answer came, its first token and its further ones fast enough."""
    fast = (asked.first or 0.0) <= limits.ttft and (asked.per_token or 0.0) <= limits.tpot
    return asked.finish is not None and fast


def counted(turns: Turns, limits: InTime) -> int:
    """The requests that were answered in time."""
    return sum(is_in_time(asked, limits) for answers in turns for _, asked in answers)


def compared(names: tuple[str, str, str], ours: Turns, theirs: Turns, limits: InTime, run: int) -> Comparison | None:
    """The goodput of a lane over another's; None if the other has none. `names` are the load and both lanes.

    Requests are resampled in runs of `run` that arrived one after the other.
    """
    pairs = [
        [(is_in_time(one, limits), is_in_time(other, limits)) for (_, one), (_, other) in zip(*both, strict=True)]
        for both in zip(ours, theirs, strict=True)
    ]
    runs = [turn[first : first + run] for turn in pairs for first in range(0, len(turn), run)]
    sums = np.array([np.sum(one, axis=0) for one in runs])
    mine, others = (int(total) for total in sums.sum(axis=0))
    if not others:
        return None
    n = sum(map(len, runs))
    gained = sum(one and not other for found in runs for one, other in found)
    lost = gained - (mine - others)
    score = PairedDifference(n=n, gained=gained, lost=lost).score_interval().scaled(n / POINTS / others)
    drawn = sums[np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))].sum(axis=1)
    drawn = drawn[drawn[:, 1] > 0]
    spread = percentiles(mine / others, drawn[:, 0] / drawn[:, 1])
    load, lane, other = names
    return Comparison(
        load=load,
        lane=lane,
        other=other,
        n=n,
        gained=gained,
        lost=lost,
        value=mine / others,
        low=max(min(1 + score.low, spread.low), 0.0),
        high=max(1 + score.high, spread.high),
    )


def best_of(found: dict[str, Turns], lanes: Sequence[str], limits: InTime) -> str | None:
    """The one of these lanes with the largest goodput, of several the fastest; None if there is none of them.

    It is chosen by the requests that it is then compared by, which favours it and never the policy.
    """

    def worth(lane: str) -> tuple[int, float]:
        each = [one for answers in found[lane] for _, asked in answers if (one := asked.per_token) is not None]
        return counted(found[lane], limits), -statistics.fmean(each) if each else 0.0

    return max((lane for lane in lanes if lane in found), key=worth, default=None)


def faster(found: Answers, base: Answers) -> Faster | None:
    """How much less a further token takes than in `base`, AR's answers; None with fewer than two questions."""
    gains: dict[int, list[float]] = {}
    for (question, ours), (_, theirs) in zip(found, base, strict=True):
        if ours.per_token and theirs.per_token:
            gains.setdefault(question, []).append(math.log(theirs.per_token / ours.per_token))
    if len(gains) < 2:
        return None
    interval = student([statistics.fmean(of_one) for of_one in gains.values()])
    value, low, high = (math.exp(end) for end in (interval.value, interval.low, interval.high))
    return Faster(n=len(gains), value=value, low=low, high=high)


def points_gained(pairs: Sequence[tuple[int, bool, bool]]) -> tuple[Interval, int] | None:
    """The points of accuracy that a lane gains, and the number of questions; None with fewer than two.

    `pairs` are the number of a question, and whether the lane and the other one have it right. A question that came
    more than once counts once, with the mean of its answers: they are the same, or nearly so.
    """
    changes: dict[int, list[int]] = {}
    for question, ours, theirs in pairs:
        changes.setdefault(question, []).append(ours - theirs)
    if len(changes) < 2:
        return None
    means = [statistics.fmean(of_one) for of_one in changes.values()]
    if not any(means):
        return PairedDifference(n=len(means), gained=0, lost=0).score_interval(), len(means)
    return student(means).scaled(POINTS), len(means)


def judgement(interval: Interval | Comparison | Faster, least: float) -> str:
    """Whether a value is at least so much, and whether its interval says so too."""
    if interval.value >= least:
        return "shown" if interval.low >= least else "reached, not shown"
    return "missed" if interval.high < least else "missed, perhaps by chance"


def sentences(
    comparisons: Sequence[Comparison],
    gain: Faster | None,
    change: tuple[Interval, int] | None = None,
    budget: float | None = None,
) -> Iterator[str]:
    """The verdict, a line for each statement: goodput, the speed of a user at little load, the knob's accuracy.

    `change` is that of accuracy in points with the number of questions, `budget` the points that may be lost.
    """
    for one in comparisons:
        least = 1.0 if one.other == "ar" or one.lane != "exact" else PART
        yield (
            f"{one.load:7} goodput of {one.lane} / {one.other}: {one.value:.3f} [{one.low:.3f}, {one.high:.3f}], "
            f"n {one.n} (+{one.gained} −{one.lost}); at least {least:g}: {judgement(one, least)}"
        )
    if gain is not None:
        yield (
            f"up to {LITTLE:g} a user of exact has {gain.value:.2f}x AR's speed [{gain.low:.2f}, {gain.high:.2f}], "
            f"{gain.n} questions; at least {GAIN:g}: {judgement(gain, GAIN)}"
        )
    if change is not None and budget is not None:
        points, n = change
        yield (
            f"from saturation on knob changes accuracy by {points.value:+.2f} points [{points.low:+.2f}, "
            f"{points.high:+.2f}], {n} questions; at least {-budget:g}: {judgement(points, -budget)}"
        )
