"""Wall-clock speed of decoders against each other, interleaved in one run, at several batch sizes.

At each batch size every decoder first decodes all prompts uncounted, once, or until CUDA graphs are there. Then come
the rounds: in each, every decoder decodes the same prompts. The order rotates by one from round to round, so that a
machine that gets slower or faster affects all decoders alike. Speed-ups are ratios within a round.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TypeVar

from analysis.decoding.decoder_specs import BASELINE, GENERATE
from analysis.decoding.timed import Timed
from analysis.stats.intervals import Estimate
from mars.decoding.base import Prompts

_T = TypeVar("_T")
_V = TypeVar("_V")

Decode = Callable[[Prompts, int], Timed]
"""Decodes all prompts, so many at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCase:
    """A decoder that is ready to run, with all its prompts as token ids; `lossless`: it writes the baseline's text."""

    label: str
    decode: Decode
    prompts: Prompts
    lossless: bool = False


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
            measures = {case.label: partial(case.decode, case.prompts, size) for case in cases}
            rounds = interleaved(measures, repeats, progress, uncounted)
            results += [result_of(case, size, rounds) for case in cases]
    return results


def result_of(case: BenchCase, batch_size: int, rounds: Mapping[str, Sequence[Timed]]) -> Result:
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
        figures={name: _estimate(column) for name, column in values.items()},
        identical=_identical(own[0], baseline[0]) if baseline else None,
        n=len(own[0].outputs),
        rounds=tuple((measured.tokens, measured.seconds) for measured in own),
    )


def _figures(measured: Timed) -> dict[str, float | None]:
    """The figures of one round: seconds per pass, TTFT and TPOT are medians over its passes and rows."""
    inside = measured.model_seconds
    return {
        "tokens_per_second": _speed(measured),
        "tokens_per_forward": measured.tokens / measured.row_passes if measured.row_passes else None,
        "seconds_per_pass": _median(measured.pass_seconds),
        "ttft_seconds": _median(measured.first_token_seconds),
        "tpot_seconds": _median(measured.token_seconds),
        "outside_model": None if inside is None else 1 - inside / measured.seconds,
    }


def _speed(measured: Timed) -> float:
    return measured.tokens / measured.seconds


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _estimate(column: Sequence[float | None]) -> Estimate | None:
    values = [value for value in column if value is not None]
    return Estimate.of(values) if values else None


def _identical(measured: Timed, baseline: Timed) -> int:
    return sum(ours == theirs for ours, theirs in zip(measured.outputs, baseline.outputs, strict=True))
