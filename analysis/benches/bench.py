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

from analysis.decoding.decoder_specs import BASELINE, GENERATE
from analysis.decoding.timed import Timed
from analysis.stats.intervals import Estimate
from mars.decoding.base import Prompts

_T = TypeVar("_T")
_V = TypeVar("_V")

Decode = Callable[[Prompts, int], Timed]
"""Decodes prompts, so many at once."""
Round = tuple[Timed, ...]
"""All prompts decoded once, in one run or batch by batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCase:
    """A decoder that is ready to run: how it decodes, and all its prompts as token ids.

    `lossless`: its outputs must be those of the baseline. `continuous`: it takes in waiting
    prompts as rows end, so that it needs no batches.
    """

    label: str
    decode: Decode
    prompts: Prompts
    lossless: bool = False
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

    `figures` by name: medians over rounds with their intervals, None if a decoder has no such figure. `identical`
    counts the prompts for which it wrote the baseline's text, token by token, in the first round. `rounds` are (tokens,
    wall-clock seconds).
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
    start = places % max(len(items), 1)
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
    results: dict[_T, list[_V]] = {key: [] for key in measures}
    for number in range(-uncounted, repeats):
        for key in rotated(list(measures), max(number, 0)):
            measured = measures[key]()
            if number >= 0:
                results[key].append(measured)
            progress(1)
    return results


def bench(
    cases: Sequence[BenchCase],
    batch_sizes: Sequence[int],
    repeats: int,
    progress: Callable[[int], object] = lambda _: None,
    uncounted: int = 1,
) -> list[Result]:
    """Measure every decoder at every batch size; `progress` is called for each decoded round, warm-up included."""
    results: list[Result] = []
    with without_collections():
        for size in batch_sizes:
            measures = {case.label: partial(case.round, size) for case in cases}
            rounds = interleaved(measures, repeats, progress, uncounted)
            results += [result_of(case, size, rounds) for case in cases]
    return results


def result_of(case: BenchCase, batch_size: int, rounds: Mapping[str, Sequence[Round]]) -> Result:
    """The figures of a decoder from the `rounds` of all decoders by label; ratios are within a round."""
    own, baseline = rounds[case.label], rounds.get(BASELINE)
    figures = [_figures(measured) for measured in own]
    values = {name: [each[name] for each in figures] for name in figures[0]}
    for name, other in (("speedup_over_autoregressive", BASELINE), ("speedup_over_generate", GENERATE)):
        pairs = zip(own, rounds[other], strict=True) if other in rounds else ()
        values[name] = [_speed(ours) / _speed(theirs) for ours, theirs in pairs]
    return Result(
        batch_size=batch_size,
        label=case.label,
        lossless=case.lossless,
        continuous=case.continuous,
        figures={name: _estimate(column) for name, column in values.items()},
        identical=_identical(own[0], baseline[0]) if baseline else None,
        n=sum(len(batch.outputs) for batch in own[0]),
        rounds=tuple((_total(measured, "tokens"), _total(measured, "seconds")) for measured in own),
    )


def _figures(measured: Round) -> dict[str, float | None]:
    """The figures of one round: seconds per pass, TTFT and TPOT are medians over its passes and rows."""
    row_passes = _total(measured, "row_passes")
    inside = [batch.model_seconds for batch in measured if batch.model_seconds is not None]
    return {
        "tokens_per_second": _speed(measured),
        "tokens_per_forward": _total(measured, "tokens") / row_passes if row_passes else None,
        "seconds_per_pass": _median(_all(measured, "pass_seconds")),
        "ttft_seconds": _median(_all(measured, "first_token_seconds")),
        "tpot_seconds": _median(_all(measured, "token_seconds")),
        "outside_model": 1 - sum(inside) / _total(measured, "seconds") if inside else None,
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
