"""A benchmark as a table for people, as Markdown for docs/measured.md, and as a dictionary for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from analysis.benches.bench import BenchPlan, Result
from analysis.stats.intervals import Estimate
from analysis.text_table import aligned, markdown

NOTE = (
    "Brackets: 95 % bootstrap interval of the median over rounds (how far timings vary, not how far problems do).\n"
    "× compares tok/s within a round. Efficiency = × AR ÷ tokens/forward. Outside = share of the wall-clock not spent\n"
    "in forward passes. Identical = problems with the very tokens of autoregressive on the same weights.\n"
    "Rows/pass = rows that still wrote, mean over passes. TTFT = from the pass that first read the row to its first\n"
    "token: waiting for a place is not in it.\n"
    "generate keeps no record of its passes: its ms/pass is the mean of those after the first token."
)


def _number(value: float) -> str:
    """Three significant digits, no exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _milliseconds(value: float) -> str:
    return _number(value * 1000)


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _alone(show: Callable[[float], str]) -> Callable[[Estimate], str]:
    return lambda estimate: show(estimate.median)


def _with_interval(estimate: Estimate) -> str:
    return f"{_number(estimate.median)} [{_number(estimate.low)}, {_number(estimate.high)}]"


COLUMNS: dict[str, tuple[str, Callable[[Estimate], str]]] = {
    "tokens_per_second": ("tok/s", _with_interval),
    "speedup_over_autoregressive": ("× AR", _with_interval),
    "speedup_over_generate": ("× generate", _with_interval),
    "tokens_per_forward": ("tokens/forward", _alone(_number)),
    "efficiency": ("efficiency", _alone(_number)),
    "rows_per_pass": ("rows/pass", _alone(_number)),
    "query_tokens_per_pass": ("queries/pass", _alone(_number)),
    "seconds_per_pass": ("ms/pass", _alone(_milliseconds)),
    "ttft_seconds": ("TTFT ms", _alone(_milliseconds)),
    "tpot_seconds": ("TPOT ms", _alone(_milliseconds)),
    "outside_model": ("outside", _alone(_percent)),
    "bandwidth_share": ("bandwidth", _alone(_percent)),
}


def to_text(results: Sequence[Result], plan: BenchPlan, *, as_markdown: bool = False) -> str:
    """A table per batch size, texts that differ although they must not, and notes for the reader."""
    tables = {size: _lines(results, size) for size in plan.batch_sizes}
    parts = [
        f"Batch size {size}:\n\n{markdown(lines, numbers=True)}"
        if as_markdown
        else f"batch size {size}\n{aligned(lines)}"
        for size, lines in tables.items()
    ]
    counts = f"{_counts(results, plan)}\n{batching_sentence(results)}\n{NOTE}"
    return "\n\n".join([*parts, lossless_sentence(results), counts])


def to_dict(results: Sequence[Result], plan: BenchPlan) -> dict[str, Any]:
    """The object that `--json` writes: seconds, shares between 0 and 1, every figure with its interval."""
    return {
        "results": [_described(result) for result in results],
        "lossless_identical": all(result.identical == result.n for result in _claims(results)),
        "n": results[0].n,
        "problems": plan.problems,
        "repeats": plan.repeats,
        "batch_sizes": list(plan.batch_sizes),
        "seed": plan.seed,
    }


def batching_sentence(results: Sequence[Result]) -> str:
    """The decoders that kept the batch full, and those that waited for the longest row."""
    labels = dict.fromkeys((result.continuous, result.label) for result in results)
    joined, batched = (", ".join(label for kind, label in labels if kind is wanted) for wanted in (True, False))
    parts = [
        f"A waiting problem takes the place of a row that has ended: {joined}." if joined else "",
        f"Batches that end with their longest row: {batched}." if batched else "",
    ]
    return " ".join(part for part in parts if part)


def lossless_sentence(results: Sequence[Result]) -> str:
    """A sentence that says whether the lossless decoders wrote the baseline's text."""
    broken = [
        f"{result.label} at batch size {result.batch_size} ({result.identical} of {result.n})"
        for result in _claims(results)
        if result.identical != result.n
    ]
    if broken:
        return f"NOT lossless: {'; '.join(broken)}. In bfloat16 near-ties may flip; in float32 this is a fault."
    return "Every lossless decoder wrote exactly the tokens of autoregressive."


def _claims(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.lossless and result.identical is not None]


def _counts(results: Sequence[Result], plan: BenchPlan) -> str:
    what, drawn = ("questions", "") if plan.questions else ("held-out problems", f", seed {plan.seed}")
    before = "one" if plan.uncounted == 1 else plan.uncounted
    return f"{results[0].n} {what}, {plan.repeats} rounds after {before} uncounted{drawn}."


def _lines(results: Sequence[Result], batch_size: int) -> list[tuple[str, ...]]:
    """The heading and a line per decoder; a column without a value is left out."""
    here = [result for result in results if result.batch_size == batch_size]
    shown = [name for name in COLUMNS if any(result.figures.get(name) for result in here)]
    lines = [("decoder", *(COLUMNS[name][0] for name in shown), "identical")]
    for result in here:
        cells = [
            "–" if (estimate := result.figures.get(name)) is None else COLUMNS[name][1](estimate) for name in shown
        ]
        lines.append((result.label, *cells, "–" if result.identical is None else f"{result.identical}/{result.n}"))
    return lines


def _described(result: Result) -> dict[str, Any]:
    return {
        "batch_size": result.batch_size,
        "contestant": result.label,
        "lossless": result.lossless,
        "continuous": result.continuous,
        **{name: None if estimate is None else asdict(estimate) for name, estimate in result.figures.items()},
        "identical": result.identical,
        "identical_rate": None if result.identical is None else result.identical / result.n,
        "rounds": [{"tokens": tokens, "seconds": seconds} for tokens, seconds in result.rounds],
    }
