"""Statistics of a lane: shares with intervals, rates, and a comparison with the baseline on the same problems."""

from __future__ import annotations

from dataclasses import dataclass

from app.board.lane import BoardLane
from mars.metrics import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The `n` problems that both have finished, by who has them right. `p_value`: exact McNemar test, two-sided."""

    n: int
    both: int
    only_baseline: int
    only_this: int
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A lane among the others; None is what is not known yet. `interval` is Wilson's, 95 %.

    `tokens`, `passes` and `tokens_per_forward` count every pass so far, `tokens_per_problem` the problems that are
    over. `tokens_per_second` is that of the batches that are over: while one ends, fewer and fewer rows share its
    passes, so that lanes could not be compared. `speed_up` is over the batches that the baseline has finished too.
    """

    n: int
    right: int
    interval: tuple[float, float] | None
    tokens: int
    passes: int
    tokens_per_forward: float
    tokens_per_problem: float | None
    tokens_per_second: float | None
    speed_up: float | None
    pairs: Pairs | None
    turned: bool


def standing(lane: BoardLane, baseline: BoardLane) -> Standing:
    """The statistics of `lane`; the baseline itself has neither speed-up nor pairs."""
    n = len(lane.outcomes)
    other = lane is not baseline
    return Standing(
        n=n,
        right=lane.right,
        interval=_interval(lane.right, n) if n else None,
        tokens=lane.tally.tokens,
        passes=lane.tally.passes,
        tokens_per_forward=lane.tally.tokens_per_forward,
        tokens_per_problem=sum(outcome.tokens for outcome in lane.outcomes.values()) / n if n else None,
        tokens_per_second=_speed(lane.batches),
        speed_up=_speed_up(lane.batches, baseline.batches) if other else None,
        pairs=pairs(lane, baseline) if other else None,
        turned=len(lane.thresholds) > 1,
    )


def pairs(lane: BoardLane, baseline: BoardLane) -> Pairs:
    """Both lanes on the problems that both have finished."""
    shared = lane.outcomes.keys() & baseline.outcomes.keys()
    mine = {number for number in shared if lane.outcomes[number].right}
    theirs = {number for number in shared if baseline.outcomes[number].right}
    only_this, only_baseline = len(mine - theirs), len(theirs - mine)
    return Pairs(
        n=len(shared),
        both=len(mine & theirs),
        only_baseline=only_baseline,
        only_this=only_this,
        p_value=_mcnemar(only_this, only_baseline),
    )


def _interval(right: int, n: int) -> tuple[float, float]:
    from analysis.stats.intervals import wilson_interval  # late: it reads scipy

    return wilson_interval(right, n)


def _mcnemar(gained: int, lost: int) -> float:
    if not gained + lost:
        return 1.0
    from scipy.stats import binomtest  # late: it is slow to import

    return float(binomtest(gained, gained + lost).pvalue)


def _speed(batches: list[Count]) -> float | None:
    seconds = sum(batch.seconds for batch in batches)
    return sum(batch.tokens for batch in batches) / seconds if seconds else None


def _speed_up(batches: list[Count], others: list[Count]) -> float | None:
    shared = min(len(batches), len(others))
    fast, slow = _speed(batches[:shared]), _speed(others[:shared])
    return fast / slow if fast and slow else None
