"""Decoders against each other on the clock, interleaved in one run, at several batch sizes.

At each batch size every decoder first decodes all prompts once, uncounted. Then come the rounds: in each, every
decoder decodes the same prompts, in an order that moves on by one from round to round, so that a machine that gets
slower or faster does so for all. Speed-ups are ratios within a round.

The batch size is how many rows decode at once. A decoder whose rows can join and leave between passes is given all
prompts, and the next one takes the place of a row that has ended; the others get them in batches that end with their
longest row.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from analysis.benches.bandwidth import Traffic
from analysis.benches.figures import Result, Round, result_of
from analysis.decoding.timed import Prompts, Timed
from analysis.evaluations.evaluate import Plan
from mars.tasks import TASKS, Problem

MIN_REPEATS = 5
_T = TypeVar("_T")

Decode = Callable[[Prompts, int], Timed]
"""Decodes prompts, so many at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """`problems` held-out ones of each family, decoded `repeats` times at each of `batch_sizes`."""

    problems: int
    seed: int
    batch_sizes: tuple[int, ...]
    repeats: int = MIN_REPEATS

    def __post_init__(self) -> None:
        total = Plan(problems=self.problems, seed=self.seed).problems * len(TASKS)
        sizes = self.batch_sizes
        if not sizes or min(sizes) < 1 or max(sizes) > total or len(set(sizes)) < len(sizes):
            raise ValueError(
                f"batch sizes must be between 1 and the {total} problems ({self.problems} of each family), each once, "
                f"got {', '.join(map(str, sizes))}"
            )
        if self.repeats < MIN_REPEATS:
            raise ValueError(f"repeats must be >= {MIN_REPEATS}, got {self.repeats}: fewer give no interval")

    def sample(self) -> list[Problem]:
        """The problems, the families taking turns: the same ones as `analysis evaluate` takes for this seed."""
        return Plan(problems=self.problems, seed=self.seed).in_turn()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCase:
    """A decoder that is ready to run: how it decodes, and all its prompts as token ids.

    `lossless`: its outputs must be those of the baseline. `comparable`: it has the baseline's weights. `continuous`: it
    takes in waiting prompts as rows end, so that it needs no batches.
    """

    label: str
    decode: Decode
    prompts: Prompts
    lossless: bool = False
    comparable: bool = True
    continuous: bool = False

    def round(self, batch_size: int) -> Round:
        """Decode all prompts once, `batch_size` at a time."""
        if self.continuous:
            return (self.decode(self.prompts, batch_size),)
        firsts = range(0, len(self.prompts), batch_size)
        return tuple(self.decode(self.prompts[first : first + batch_size], batch_size) for first in firsts)


def bench(
    cases: Sequence[BenchCase], plan: BenchPlan, traffic: Traffic, progress: Callable[[int], object] | None = None
) -> list[Result]:
    """Measure every decoder at every batch size; `progress` is told of each decoded round, warm-up included."""
    # A full collection takes as long as a round of a small model; without what is there already it takes nothing.
    gc.collect()
    gc.freeze()
    try:
        return _bench(cases, plan, traffic, progress)
    finally:
        gc.unfreeze()


def rotated(items: Sequence[_T], places: int) -> list[_T]:
    """The items from number `places` on, then those before it."""
    start = places % len(items)
    return [*items[start:], *items[:start]]


def _bench(
    cases: Sequence[BenchCase], plan: BenchPlan, traffic: Traffic, progress: Callable[[int], object] | None
) -> list[Result]:
    results: list[Result] = []
    for batch_size in plan.batch_sizes:
        rounds: dict[str, list[Round]] = {case.label: [] for case in cases}
        for number in range(-1, plan.repeats):
            for case in rotated(cases, max(number, 0)):
                measured = case.round(batch_size)
                if number >= 0:
                    rounds[case.label].append(measured)
                if progress is not None:
                    progress(1)
        results += [
            result_of(
                case.label,
                batch_size,
                rounds,
                traffic,
                lossless=case.lossless,
                comparable=case.comparable,
                continuous=case.continuous,
            )
            for case in cases
        ]
    return results
