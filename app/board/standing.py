"""The row of a lane in the table: shares with intervals, rates, and the baseline beside it on the same problems."""

from __future__ import annotations

from app.board.lane import BoardLane
from app.board.messages import Pairs, Score
from mars.metrics import Count


def standing(lane: BoardLane, baseline: BoardLane) -> Score:
    """The row of `lane`, rounded for the page; the baseline itself has neither speed-up nor pairs."""
    n = len(lane.outcomes)
    other = lane is not baseline
    return {
        "kind": "score",
        "lane": lane.key,
        "n": n,
        "right": lane.right,
        "interval": [round(end, 5) for end in _interval(lane.right, n)] if n else None,
        "tokens": lane.tally.tokens,
        "passes": lane.tally.passes,
        "tokensPerForward": round(lane.tally.tokens_per_forward, 4),
        "tokensPerProblem": round(sum(one.tokens for one in lane.outcomes.values()) / n, 2) if n else None,
        "tokensPerSecond": _rounded(_speed(lane.batches), 2),
        "speedup": _rounded(_speed_up(lane.batches, baseline.batches), 4) if other else None,
        "pairs": pairs(lane, baseline) if other else None,
        "threshold": lane.threshold,
        "turned": len(lane.thresholds) > 1,
        "inactive": lane.inactive(lane.threshold),
    }


def pairs(lane: BoardLane, baseline: BoardLane) -> Pairs:
    """Both lanes on the problems that both have finished."""
    shared = lane.outcomes.keys() & baseline.outcomes.keys()
    mine = {number for number in shared if lane.outcomes[number].right}
    theirs = {number for number in shared if baseline.outcomes[number].right}
    only_this, only_baseline = len(mine - theirs), len(theirs - mine)
    return {
        "n": len(shared),
        "both": len(mine & theirs),
        "onlyBaseline": only_baseline,
        "onlyThis": only_this,
        "p": round(_mcnemar(only_this, only_baseline), 5),
    }


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


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places)
