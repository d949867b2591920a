"""When requests arrive, and with which questions: the same for every lane of a load test.

A Poisson process whose count is known has its arrivals anywhere, each independently. So a trace has as many requests as
its rate says, and those that happen to come together; with some tens of requests the count itself would vary by more
than the lanes do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

from tests.performance.asking import Asked

BURST_RATE, BURSTS = 0.6, "bursts"
"""The part of saturation that comes in bursts, and the name of that load."""
BURSTS_APART = 4.0  # seconds
# Below this part of saturation traces are longer, for as many requests, up to so many times.
MOSTLY, LONGEST = 0.9, 3.0

Trace = list[tuple[float, int]]
"""Seconds and the number of a question, one for each request."""
Draw = Callable[[float, float, Iterator[int], str], Trace]
Answers = Sequence[tuple[int, Asked]]
"""What came back of a trace: the number of the question, and the outcome, in the order of arrival."""


def dealt(questions: int, seed: str) -> Iterator[int]:
    """Numbers of questions without end: all of them in a random order, then in another one."""
    dice = random.Random(seed)
    while True:
        yield from dice.sample(range(questions), questions)


def poisson(rate: float, seconds: float, numbers: Iterator[int], seed: str) -> Trace:
    """Arrivals at random, `rate` a second; at least one."""
    dice = random.Random(seed)
    times = sorted(dice.random() * seconds for _ in range(max(1, round(rate * seconds))))
    return [(when, next(numbers)) for when in times]


def bursts(rate: float, seconds: float, numbers: Iterator[int], seed: str) -> Trace:
    """About the same number of arrivals, all of some seconds at once; nothing is random but the questions."""
    size = max(1, round(rate * BURSTS_APART))
    starts = [number * BURSTS_APART for number in range(math.ceil(seconds / BURSTS_APART))]
    return [(start, next(numbers)) for start in starts for _ in range(size)]


def named_loads(rates: Sequence[float], *, with_bursts: bool) -> list[tuple[str, float, Draw]]:
    """The name of each load, its part of saturation, and how its traces are drawn."""
    loads: list[tuple[str, float, Draw]] = [(f"{rate:g}", rate, poisson) for rate in rates]
    return [*loads, (BURSTS, BURST_RATE, bursts)] if with_bursts else loads


def length(rate: float) -> float:
    """How many times as long as others the traces at this part of saturation are: in few requests, little is seen."""
    return min(max(MOSTLY / rate, 1.0), LONGEST)


def seconds_for(left: float, lanes: int, rates: Sequence[float], turns: int, drain: float) -> float:
    """Seconds of the traces of a load that is not longer, if all lanes and rates are to take the `left` seconds.

    A trace beyond saturation takes as long as its requests do; after each, the last answers take `drain` seconds.
    """
    weights = sum(length(rate) * max(rate, 1.0) for rate in rates)
    return max((left / lanes - turns * len(rates) * drain) / weights, 0.3)
