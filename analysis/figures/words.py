"""The words of marks: the name of a series, the setting of a run, the text under the pointer.

Rows are those of `RunStore.table()`: missing numbers are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from analysis.figures.style import WIDTH, plain
from mars import decoders
from mars.config import DEFAULTS, SETTINGS

Row = Mapping[str, Any]
BASELINE_DECODER = decoders.BASELINE
PUBLISHED = "published"
SOURCE = "arXiv 2604.07023"

MEASURES = {
    "accuracy": ("accuracy", 100.0, ".1f", " %"),
    "tokens_per_forward": ("tokens per forward", 1.0, ".2f", ""),
    "tokens_per_second": ("tok/s", 1.0, ".0f", ""),
    "speedup": ("speed-up over AR", 1.0, ".2f", "×"),
    "same_text": ("answers with the AR run's text", 100.0, ".0f", " %"),
    "loss": ("accuracy against AR", -1.0, "+.1f", " points"),
}
"""The text under the pointer for each measure: words, factor, number of digits, unit."""

_BENCHMARKS = {"ifeval": "IFEval", "spec_bench": "Spec-Bench"}
_ALWAYS = {"cache_block_size", "draft_tokens", "layout"}
"""The settings that are named even at their defaults, where a decoder reads them."""
_SHARED = ("use_cache", "temperature", "top_p")
_LEFT_OUT = {"threshold", "seed"}


def decoder_words(row: Row) -> str:
    """Decoder and settings, the threshold aside: "sliding_window · B 4 · margin".

    Named are the settings that act on this decoder (all settings for an unknown one) and differ from the usual ones;
    the usual block size is that of the training.
    """
    decoder = str(row["decoder"])
    info = decoders.TABLE.get(decoder)
    if info is None:
        names = [name for name in DEFAULTS if name != "threshold"]
    else:
        read = info.deciding(continuation=row.get("settings.continuation") is True)
        names = [*(name for name in read if name not in (*_SHARED, *_LEFT_OUT)), *_SHARED]
    words = (_setting(name, row, known=info is not None) for name in names)
    return " · ".join([decoder, *(word for word in words if word)])


def task_words(task: object) -> str:
    """The name of a family of problems, or of a benchmark: "word problems", "IFEval"."""
    return _BENCHMARKS.get(str(task), str(task).replace("_", " "))


def series_words(row: Row) -> str:
    """The name of the series of this run: the settings that all its points share, but for the threshold."""
    if row["source"] == PUBLISHED:
        return f"published ({SOURCE}) · {model_words(row)}"
    return f"{model_words(row)} · {decoder_words(row)}"


def model_words(row: Row) -> str:
    """The model, and the draft model where there is one."""
    name, draft = row.get("model", row["model.name"]), row.get("draft.name")
    return str(name) if missing(draft) else f"{name} + {draft}"


def threshold_words(row: Row) -> str:
    """The threshold, "one-token mode", or nothing if the decoder heeds none."""
    if not heeds_threshold(row):
        return ""
    threshold = row.get("settings.threshold")
    # What is published as τ = 1 was run without a threshold: a probability can round to 1 and pass.
    if threshold is None or missing(threshold) or (row.get("source") == PUBLISHED and threshold >= 1):
        return "one-token mode"
    return f"τ {threshold:g}"


def heeds_threshold(row: Row) -> bool:
    """Whether the threshold of this run decided anything."""
    info = decoders.TABLE.get(row["decoder"])
    return info is None or "threshold" in info.deciding(continuation=row.get("settings.continuation") is True)


def hover(row: Row, *first: str) -> str:
    """The text of a mark, as Plotly's HTML: its name, model, setting, further lines, measured values, and machine."""
    published = row["source"] == PUBLISHED
    info = decoders.TABLE.get(row["decoder"])
    setting = " · ".join(word for word in (decoder_words(row), threshold_words(row)) if word)
    title = _joined(info.title if info else str(row["decoder"]), threshold_words(row))
    problems = _joined(
        None if missing(row.get("n")) else f"n = {int(row['n'])}",
        _families(row),
        None if missing(row.get("seed")) else f"seed {int(row['seed'])}",
    )
    machine = _joined(
        None if missing(row.get("batch_size")) else f"batch size {int(row['batch_size'])}",
        _text(row.get("dtype")),
        _text(row.get("device")),
    )
    origin = f"published, {SOURCE}" if published else "measured"
    other = "another model, another task" if published else None
    where = [machine, _text(row.get("hardware")), _joined(_text(row.get("date"), 10), origin), other]
    head = [f"<b>{plain(title)}</b>", plain(cut(model_words(row))), folded(setting)]
    return "<br>".join([*head, *first, *_measured(row), *(plain(line) for line in (problems, *where) if line)])


def _measured(row: Row) -> list[str]:
    """A line for everything that was measured."""
    lines = []
    for name, (label, factor, form, unit) in MEASURES.items():
        if not missing(row.get(name)):
            lines.append(f"{label} {measure_words(row, name, form, factor)}{unit}")
    if row.get("over"):
        lines.append(plain(f"AR in the same turns: {row['over']}"))
    return lines


def measure_words(row: Row, name: str, form: str, factor: float = 1.0) -> str:
    """The measure of this name and, in brackets, its interval if it has one; nothing without a value."""
    if missing(row.get(name)):
        return ""
    value, *ends = (factor * row.get(column, float("nan")) for column in (name, f"{name}_low", f"{name}_high"))
    low, high = sorted(ends)
    return f"{value:{form}}" if missing(low) else f"{value:{form}} [{low:{form}}, {high:{form}}]"


def cut(text: str) -> str:
    """`text`, cut off if it is too long for a legend or a telephone."""
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _setting(name: str, row: Row, *, known: bool) -> str:
    value = row.get(f"settings.{name}")
    usual = row.get("model.block_size") if name == "block_size" else DEFAULTS[name]
    if missing(value) or (value == usual and not (known and name in _ALWAYS)):
        return ""
    return SETTINGS[name].figure.format(int(value) if isinstance(value, float) and value == int(value) else value)


def _families(row: Row) -> str | None:
    tasks, task = row.get("tasks"), row.get("task")
    return f"{len(tasks)} families" if isinstance(tasks, tuple) and task not in tasks else _text(task)


def folded(text: str, width: int = WIDTH) -> str:
    """`text` as Plotly's HTML, with line breaks at " · "; a part that is too long is cut off."""
    return "<br>".join(plain(line) for line in _folded(text, width))


def _folded(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" · "):
        if lines[-1] and len(lines[-1]) + 3 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} · {word}" if lines[-1] else word
    return [part for line in lines for part in wrap(line, width, max_lines=2, placeholder="…")]


def _joined(*words: str | None) -> str:
    return " · ".join(word for word in words if word)


def _text(value: Any, longest: int = WIDTH) -> str | None:
    return None if missing(value) else str(value)[:longest]


def missing(value: Any) -> bool:
    """Whether a cell of a table is empty."""
    return value is None or (isinstance(value, float) and value != value)
