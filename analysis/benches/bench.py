"""Wall-clock speed of decoders against each other, interleaved in one run, at several batch sizes.

At each batch size every decoder first decodes all prompts uncounted, once, or until CUDA graphs are there. Then come
the rounds: in each, every decoder decodes the same prompts. The order rotates by one from round to round, so that a
machine that gets slower or faster affects all decoders alike. Speed-ups are ratios within a round.

The batch size is the number of rows that decode at once. A decoder whose rows can join and leave between passes gets
all prompts, and the next one takes the place of a row that has ended. The others get batches that end with their
longest row.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, TypeVar

from analysis.benches.bandwidth import Traffic
from analysis.decoding.decoder_specs import BASELINE, GENERATE
from analysis.decoding.timed import Timed
from analysis.evaluations.evaluate import Plan
from analysis.stats.intervals import Estimate
from mars.decoding.base import Prompts
from mars.tasks import TASKS

MIN_REPEATS = 5
_T = TypeVar("_T")
_V = TypeVar("_V")

Decode = Callable[[Prompts, int], Timed]
"""Decodes prompts, so many at once."""
Round = tuple[Timed, ...]
"""All prompts decoded once, in one run or batch by batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """`problems` held-out ones of each family, or `questions`, decoded `repeats` times at each of `batch_sizes`.

    `uncounted` rounds come before these.
    """

    problems: int
    seed: int
    batch_sizes: tuple[int, ...]
    repeats: int = MIN_REPEATS
    questions: tuple[str, ...] = ()
    uncounted: int = 1

    def __post_init__(self) -> None:
        each = Plan(problems=self.problems, seed=self.seed).problems
        total = len(self.questions) or each * len(TASKS)
        what = "questions" if self.questions else f"problems ({each} of each family)"
        sizes = self.batch_sizes
        if not sizes or min(sizes) < 1 or max(sizes) > total or len(set(sizes)) < len(sizes):
            raise ValueError(
                f"batch sizes must be between 1 and the {total} {what}, each once, got {', '.join(map(str, sizes))}"
            )
        if self.repeats < MIN_REPEATS:
            raise ValueError(f"repeats must be >= {MIN_REPEATS}, got {self.repeats}: fewer give no interval")

    def prompts(self) -> list[str]:
        """The questions, or the problems, the families in turn: those of `analysis evaluate` for this seed."""
        if self.questions:
            return list(self.questions)
        return [problem.prompt for problem in Plan(problems=self.problems, seed=self.seed).in_turn()]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One decoder at one batch size.

    `figures` by name: medians over rounds with their intervals, None if a decoder has no such figure.
    `identical` counts the problems for which it wrote the baseline's text, token by token, in the first round.
    `continuous`: rows joined as others ended. `rounds` are (tokens, wall-clock seconds).
    """

    batch_size: int
    label: str
    lossless: bool
    continuous: bool
    figures: dict[str, Estimate | None]
    identical: int | None
    n: int
    rounds: tuple[tuple[int, float], ...]


@contextmanager
def without_collections() -> Iterator[None]:
    """Leave present objects out of garbage collection: with them a full one takes as long as many small passes."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def rotated(items: Sequence[_T], places: int) -> list[_T]:
    """The items from number `places` on, then those before it."""
    start = places % len(items)
    return [*items[start:], *items[:start]]


def interleaved(
    measures: Mapping[_T, Callable[[], _V]],
    repeats: int,
    progress: Callable[[int], object] = lambda _: None,
    uncounted: int = 1,
) -> dict[_T, list[_V]]:
    """The results of each, round by round in a rotating order, after so many uncounted rounds.

    `progress` is called for each measurement, the uncounted ones included.
    """
    found: dict[_T, list[_V]] = {key: [] for key in measures}
    for number in range(-uncounted, repeats):
        for key in rotated(list(measures), max(number, 0)):
            measured = measures[key]()
            if number >= 0:
                found[key].append(measured)
            progress(1)
    return found


def bench(
    cases: Sequence[BenchCase], plan: BenchPlan, traffic: Traffic, progress: Callable[[int], object] = lambda _: None
) -> list[Result]:
    """Measure every decoder at every batch size; `progress` is called for each decoded round, warm-up included."""
    results: list[Result] = []
    with without_collections():
        for size in plan.batch_sizes:
            measures = {case.label: partial(case.round, size) for case in cases}
            rounds = interleaved(measures, plan.repeats, progress, plan.uncounted)
            results += [result_of(case, size, rounds, traffic) for case in cases]
    return results


def result_of(case: BenchCase, batch_size: int, rounds: Mapping[str, Sequence[Round]], traffic: Traffic) -> Result:
    """The figures of a decoder from the `rounds` of all decoders by label; ratios are within a round."""
    own, baseline = rounds[case.label], rounds.get(BASELINE)
    figures = [_figures(measured, traffic) for measured in own]
    values = {name: [each[name] for each in figures] for name in figures[0]}
    for name, other in (("speedup_over_autoregressive", BASELINE), ("speedup_over_generate", GENERATE)):
        pairs = zip(own, rounds[other], strict=True) if other in rounds else ()
        values[name] = [_speed(ours) / _speed(theirs) for ours, theirs in pairs]
    values["efficiency"] = [
        None if speedup is None or not gained else speedup / gained
        for speedup, gained in zip(values["speedup_over_autoregressive"], values["tokens_per_forward"], strict=False)
    ]
    return Result(
        batch_size=batch_size,
        label=case.label,
        lossless=case.lossless,
        continuous=case.continuous,
        figures={name: _estimate(column) for name, column in values.items()},
        identical=_identical(own[0], baseline[0]) if baseline and case.comparable else None,
        n=sum(len(batch.outputs) for batch in own[0]),
        rounds=tuple((_total(measured, "tokens"), _total(measured, "seconds")) for measured in own),
    )


def _figures(measured: Round, traffic: Traffic) -> dict[str, float | None]:
    """The figures of one round: seconds per pass, TTFT and TPOT are medians over its passes and rows."""
    passes, row_passes = _total(measured, "passes"), _total(measured, "row_passes")
    pass_seconds = _all(measured, "pass_seconds")
    inside = [batch.model_seconds for batch in measured if batch.model_seconds is not None]
    return {
        "tokens_per_second": _speed(measured),
        "tokens_per_forward": _total(measured, "tokens") / row_passes if row_passes else None,
        "rows_per_pass": row_passes / passes if passes else None,
        "query_tokens_per_pass": _total(measured, "query_tokens") / len(pass_seconds) if pass_seconds else None,
        "seconds_per_pass": _median(pass_seconds),
        "ttft_seconds": _median(_all(measured, "first_token_seconds")),
        "tpot_seconds": _median(_all(measured, "token_seconds")),
        "outside_model": 1 - sum(inside) / _total(measured, "seconds") if inside else None,
        "bandwidth_share": traffic.share(len(pass_seconds), _total(measured, "read_positions"), sum(pass_seconds)),
    }


def _speed(measured: Round) -> float:
    return float(_total(measured, "tokens") / _total(measured, "seconds"))


def _total(measured: Round, name: str) -> Any:
    return sum(getattr(batch, name) for batch in measured)


def _all(measured: Round, name: str) -> list[Any]:
    return [value for batch in measured for value in getattr(batch, name)]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _estimate(column: Sequence[float | None]) -> Estimate | None:
    values = [value for value in column if value is not None]
    return Estimate.of(values) if values else None


def _identical(measured: Round, baseline: Round) -> int:
    pairs = zip(_all(measured, "outputs"), _all(baseline, "outputs"), strict=True)
    return sum(ours == theirs for ours, theirs in pairs)
