"""A benchmark as a table for people, as Markdown for docs/measured.md, and as a dictionary for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from analysis.benches.bench import Result
from analysis.stats.intervals import Estimate
from analysis.text_table import aligned, markdown

NOTE = (
    "Brackets: 95 % bootstrap interval of the median over rounds (how far timings vary, not how far problems do).\n"
    "× compares tok/s within a round. Outside = share of the wall-clock not spent in forward passes. Identical =\n"
    "prompts with the very tokens of autoregressive on the same weights. TTFT = from the pass that first read the row\n"
    "to its first token: waiting for a place is not in it.\n"
    "generate keeps no record of its passes: its ms/pass is the mean of those after the first token."
)


def _number(value: float) -> str:
    """Three significant digits, no exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _with_interval(estimate: Estimate) -> str:
    return f"{_number(estimate.median)} [{_number(estimate.low)}, {_number(estimate.high)}]"


def _milliseconds(estimate: Estimate) -> str:
    return _number(estimate.median * 1000)


COLUMNS: dict[str, tuple[str, Callable[[Estimate], str]]] = {
    "tokens_per_second": ("tok/s", _with_interval),
    "speedup_over_autoregressive": ("× AR", _with_interval),
    "speedup_over_generate": ("× generate", _with_interval),
    "tokens_per_forward": ("tokens/forward", lambda estimate: _number(estimate.median)),
    "seconds_per_pass": ("ms/pass", _milliseconds),
    "ttft_seconds": ("TTFT ms", _milliseconds),
    "tpot_seconds": ("TPOT ms", _milliseconds),
    "outside_model": ("outside", lambda estimate: f"{estimate.median:.0%}"),
}


def to_text(results: Sequence[Result], *, as_markdown: bool = False) -> str:
    """A table per batch size, whether lossless decoders wrote the baseline's text, and notes for the reader."""
    parts = []
    for size in dict.fromkeys(result.batch_size for result in results):
        lines = _lines([result for result in results if result.batch_size == size])
        table = markdown(lines, numbers=True) if as_markdown else aligned(lines)
        parts.append(f"Batch size {size}:\n\n{table}" if as_markdown else f"batch size {size}\n{table}")
    return "\n\n".join([*parts, lossless_sentence(results), NOTE])


def to_dict(results: Sequence[Result]) -> dict[str, Any]:
    """The object that `--json` writes: seconds, shares between 0 and 1, every figure with its interval."""
    return {
        "results": [
            {
                "batch_size": result.batch_size,
                "contestant": result.label,
                "lossless": result.lossless,
                **{name: estimate and asdict(estimate) for name, estimate in result.figures.items()},
                "identical": result.identical,
                "rounds": [{"tokens": tokens, "seconds": seconds} for tokens, seconds in result.rounds],
            }
            for result in results
        ],
        "lossless_identical": all(result.identical == result.n for result in _claims(results)),
        "n": results[0].n,
    }


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


def _lines(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The heading and a line per decoder; a column without a value is left out."""
    shown = [name for name in COLUMNS if any(result.figures.get(name) for result in results)]
    lines = [("decoder", *(COLUMNS[name][0] for name in shown), "identical")]
    for result in results:
        cells = [
            "–" if (estimate := result.figures.get(name)) is None else COLUMNS[name][1](estimate) for name in shown
        ]
        lines.append((result.label, *cells, "–" if result.identical is None else f"{result.identical}/{result.n}"))
    return lines
