"""From the rounds of one decoder to its figures, and from the rounds of two to a speed-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from analysis.benches.bandwidth import Traffic
from analysis.decoding.decoder_specs import BASELINE, GENERATE
from analysis.decoding.timed import Timed
from analysis.stats import Estimate

Round = tuple[Timed, ...]
"""All prompts decoded once, in one run or batch by batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One decoder at one batch size.

    `figures` by name: medians over rounds with their intervals, None where a decoder has no such figure.
    `identical` counts the problems for which it wrote what the baseline wrote, token by token, in the first round.
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


def result_of(
    label: str,
    batch_size: int,
    rounds: Mapping[str, Sequence[Round]],
    traffic: Traffic,
    *,
    lossless: bool = False,
    comparable: bool = True,
    continuous: bool = False,
) -> Result:
    """The figures of decoder `label` from the rounds of all; pairs are those of one round.

    `comparable`: it has the baseline's weights, so that its outputs can be held against the baseline's.
    """
    own, baseline = rounds[label], rounds.get(BASELINE)
    values: dict[str, list[float | None]] = {
        name: [figure(measured) for measured in own] for name, figure in FIGURES.items()
    }
    values["bandwidth_share"] = [_bandwidth(measured, traffic) for measured in own]
    for name, other in (("speedup_over_autoregressive", BASELINE), ("speedup_over_generate", GENERATE)):
        values[name] = [_ratio(*pair) for pair in zip(own, rounds[other], strict=True)] if other in rounds else []
    values["efficiency"] = [
        None if speedup is None or not gained else speedup / gained
        for speedup, gained in zip(values["speedup_over_autoregressive"], values["tokens_per_forward"], strict=False)
    ]
    return Result(
        batch_size=batch_size,
        label=label,
        lossless=lossless,
        continuous=continuous,
        figures={name: _estimate(column) for name, column in values.items()},
        identical=_identical(own[0], baseline[0]) if baseline and comparable else None,
        n=sum(len(batch.outputs) for batch in own[0]),
        rounds=tuple((_tokens(measured), _seconds(measured)) for measured in own),
    )


def _estimate(column: Sequence[float | None]) -> Estimate | None:
    values = [value for value in column if value is not None]
    return Estimate.of(values) if values else None


def _tokens(measured: Round) -> int:
    return sum(batch.tokens for batch in measured)


def _seconds(measured: Round) -> float:
    return sum(batch.seconds for batch in measured)


def _speed(measured: Round) -> float:
    return _tokens(measured) / _seconds(measured)


def _ratio(measured: Round, baseline: Round) -> float:
    return _speed(measured) / _speed(baseline)


def _gained(measured: Round) -> float | None:
    passes = sum(batch.row_passes for batch in measured)
    return _tokens(measured) / passes if passes else None


def _rows(measured: Round) -> float | None:
    passes = sum(batch.passes for batch in measured)
    return sum(batch.row_passes for batch in measured) / passes if passes else None


def _queries(measured: Round) -> float | None:
    passes = sum(len(batch.pass_seconds) for batch in measured)
    return sum(batch.query_tokens for batch in measured) / passes if passes else None


def _outside(measured: Round) -> float | None:
    inside = [batch.model_seconds for batch in measured if batch.model_seconds is not None]
    return 1 - sum(inside) / _seconds(measured) if inside else None


def _pass_seconds(measured: Round) -> float | None:
    return median(seconds) if (seconds := [s for batch in measured for s in batch.pass_seconds]) else None


def _first_token_seconds(measured: Round) -> float | None:
    return median(seconds) if (seconds := [s for batch in measured for s in batch.first_token_seconds]) else None


def _token_seconds(measured: Round) -> float | None:
    return median(seconds) if (seconds := [s for batch in measured for s in batch.token_seconds]) else None


def _bandwidth(measured: Round, traffic: Traffic) -> float | None:
    passes = [seconds for batch in measured for seconds in batch.pass_seconds]
    return traffic.share(len(passes), sum(batch.read_positions for batch in measured), sum(passes))


def _identical(measured: Round, baseline: Round) -> int:
    pairs = zip(_outputs(measured), _outputs(baseline), strict=True)
    return sum(ours == theirs for ours, theirs in pairs)


def _outputs(measured: Round) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(batch.outputs for batch in measured)


FIGURES: dict[str, Callable[[Round], float | None]] = {
    "tokens_per_second": _speed,
    "tokens_per_forward": _gained,
    "rows_per_pass": _rows,
    "query_tokens_per_pass": _queries,
    "seconds_per_pass": _pass_seconds,
    "ttft_seconds": _first_token_seconds,
    "tpot_seconds": _token_seconds,
    "outside_model": _outside,
}
"""One value per round: seconds per pass, TTFT and TPOT are medians over its passes and rows."""
