"""How many problems a verdict would take that can't be told yet."""

from __future__ import annotations

from math import ceil, floor, inf, log10

from analysis.stats.intervals import Interval


def problems_needed(n: int, interval: Interval, *, above: float = inf, below: float = -inf) -> float:
    """About so many until the whole interval lies above `above`, or below `below`, if the value stays what it is.

    An interval narrows with the root of the number of problems. Infinite where the value is on the wrong side of both.
    """
    ways = [
        (interval.value - interval.low, interval.value - above),
        (interval.high - interval.value, below - interval.value),
    ]
    return min((n * (width / room) ** 2 for width, room in ways if room > 0), default=inf)


def problems_needed_between(n: int, interval: Interval, limit: float) -> float:
    """About so many until the interval lies between −limit and limit, or the whole of it beyond one of them."""
    inside = [
        problems_needed(n, interval, above=-limit),
        problems_needed(n, interval, below=limit),
    ]
    return min(max(inside), problems_needed(n, interval, above=limit), problems_needed(n, interval, below=-limit))


def about(problems: float) -> str:
    """Two digits of it, rounded up: 13,000."""
    if problems == inf:
        return "no number"
    step = 10 ** max(0, floor(log10(max(problems, 1))) - 1)
    return f"{ceil(problems / step) * step:,}"
