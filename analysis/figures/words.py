"""The words of marks: names of models and series, the setting of a run, the text under the pointer.

Rows are those of `RunStore.table()`: missing numbers are NaN.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import pandas as pd

from analysis.figures.style import BASELINE_RANK, WIDTH, plain
from analysis.text_table import signed
from mars import decoders
from mars.config import DEFAULTS, SETTINGS

Row = Mapping[str, Any]

MEASURES = {
    "accuracy": ("accuracy", 100.0, ".1f", " %"),
    "tokens_per_forward": ("tokens per forward", 1.0, ".2f", ""),
    "tokens_per_second": ("tok/s", 1.0, ".0f", ""),
    "speedup": ("speed-up over AR", 1.0, ".2f", "×"),
    "same_text": ("answers with the AR run's text", 100.0, ".0f", " %"),
    "agreement": ("tokens of its own one-token mode", 100.0, ".1f", " %"),
    "loss": ("accuracy against AR", -1.0, "+.1f", " points"),
}
"""The text under the pointer for each measure: words, factor, number of digits, unit."""

_BENCHMARKS = {
    "ifeval": "IFEval",
    "spec_bench": "Spec-Bench",
    "chat": "ordinary questions",
    "verifiable": "verifiable instructions",
}
_ALWAYS = {"cache_block_size", "draft_tokens", "layout"}
"""The settings that are named even at their defaults, where a decoder reads them."""
_DRAFTS = {"lookup": "masks and copies", "auto": "masks or copies", "copy": "copies"}
"""By the layout of exact decoding; the others draft with masks alone."""
_SHARED = ("temperature", "top_p")
_LEFT_OUT = {"threshold", "seed"}
_TELLING = ("device", "dtype")
"""The columns that are named where lines would have one name."""


def title_words(row: Row) -> str:
    """The name of the decoder as people read it: "MARS, threshold"."""
    decoder = str(row["decoder"])
    return decoders.TABLE[decoder].title if decoder in decoders.TABLE else decoder


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
        unread = () if info.by_threshold or _continues(row) or not info.draft else decoders.WINDOW
        names = [*(name for name in info.settings if name not in (*_SHARED, *_LEFT_OUT, *unread)), *_SHARED]
    words = (_setting(name, row, known=info is not None) for name in names)
    return joined(decoder, *words, "continuation" if _continues(row) else "")


def _continues(row: Row) -> bool:
    """Whether the target of a draft model went on with its own masks, as it did in old runs."""
    return row.get("settings.continuation") is True


def task_words(task: object) -> str:
    """The name of a family of problems, or of a benchmark: "word problems", "IFEval"."""
    return _BENCHMARKS.get(str(task), str(task).replace("_", " "))


def model_words(row: Row) -> str:
    """The model, and the draft model where there is one."""
    name, draft = row.get("model", row["model.name"]), row.get("draft.name")
    return str(name) if missing(draft) else f"{name} + {draft}"


def threshold_words(row: Row) -> str:
    """The threshold, "one-token mode", or nothing if the decoder heeds none."""
    if not heeds_threshold(row):
        return ""
    threshold = row.get("settings.threshold")
    if threshold is None or missing(threshold):
        return "one-token mode"
    return f"τ {threshold:g}"


def drafts_words(row: Row) -> str:
    """What an exact run drafts with, which its gain is owed to; nothing for other runs."""
    if row["decoder"] != decoders.EXACT:
        return ""
    return f"drafts: {_DRAFTS.get(str(row['settings.layout']), 'masks')}"


def heeds_threshold(row: Row) -> bool:
    """Whether the threshold of this run decided anything."""
    info = decoders.TABLE.get(row["decoder"])
    return info is None or info.by_threshold or _continues(row)


def counts_words(row: Row) -> str:
    """Its problems, and those of its tokens and speed where these are fewer: "n = 1,200 (tokens and speed: 96)"."""
    if missing(row.get("n")):
        return ""
    own = row.get("own_n", row["n"])
    return f"n = {int(row['n']):,}" + (f" (tokens and speed: {int(own):,})" if own < row["n"] else "")


def hover(row: Row, *first: str) -> str:
    """The text of a mark, as Plotly's HTML: its name, model, setting, further lines, measured values, and machine."""
    setting = joined(decoder_words(row), threshold_words(row))
    title = joined(title_words(row), threshold_words(row))
    problems = joined(
        counts_words(row),
        _families(row),
        None if missing(row.get("seed")) else f"seed {int(row['seed'])}",
    )
    machine = joined(
        None if missing(row.get("batch_size")) else f"batch size {int(row['batch_size'])}",
        _text(row.get("dtype")),
        _text(row.get("device")),
    )
    where = [machine, _text(row.get("hardware")), joined(_text(row.get("date"), 10), "measured")]
    head = [f"<b>{plain(title)}</b>", plain(cut(model_words(row))), folded(setting)]
    return "<br>".join([*head, *first, *_measured(row), *(plain(line) for line in (problems, *where) if line)])


def _measured(row: Row) -> list[str]:
    """A line for everything that was measured."""
    lines = []
    for name, (label, factor, form, unit) in MEASURES.items():
        if not missing(row.get(name)):
            lines.append(f"{label} {measure_words(row, name, form, factor)}{unit}")
    if not missing(row.get("over")):
        lines.append(plain(f"AR in the same turns: {row['over']}"))
    return lines


def measure_values(row: Row, name: str, factor: float = 1.0) -> list[float]:
    """The measure of this name and the two ends of its interval, if it has one; nothing without a value."""
    if missing(row.get(name)):
        return []
    value, *ends = (factor * row.get(column, float("nan")) for column in (name, f"{name}_low", f"{name}_high"))
    return [value] if missing(ends[0]) else [value, *sorted(ends)]


def measure_words(row: Row, name: str, form: str, factor: float = 1.0) -> str:
    """The same in words, the interval in brackets."""
    told = [signed(each, form) for each in measure_values(row, name, factor)]
    return f"{told[0]} [{told[1]}, {told[2]}]" if len(told) > 1 else "".join(told)


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
    if not isinstance(tasks, tuple) or task in tasks:
        return _text(task)
    return task_words(tasks[0]) if len(tasks) == 1 else f"{len(tasks)} families"


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


def joined(*words: str | None) -> str:
    """The words that there are, with dots between them."""
    return " · ".join(word for word in words if word)


def _text(value: Any, longest: int = WIDTH) -> str | None:
    return None if missing(value) else str(value)[:longest]


def missing(value: Any) -> bool:
    """Whether a cell of a table is empty."""
    return value is None or (isinstance(value, float) and value != value)


def named(table: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    """The table with further columns; `baseline` is the fingerprint of the AR baseline.

    They are made for the whole store, so that a filter renames and recolours nothing. `model` is a name that no two
    models share, `series` the settings that the runs of a line share, `threshold` the one that decided, `rank` the
    number of the series' look, `over` the AR run of the same turns in words, `hover` the text of a mark.
    """
    found = table.assign(model=_models(table))
    found["over"] = _over(found)
    records = found.to_dict("records")
    found["series"] = pd.Series(_series(records), dtype=object, index=found.index)
    found["hover"] = pd.Series([hover(row) for row in records], dtype=object, index=found.index)
    found["threshold"] = found["settings.threshold"].astype(float).where([heeds_threshold(row) for row in records])
    ranks = found["series"].map(_ranks(found))
    is_baseline = (found["model.fingerprint"] == baseline) & (found["decoder"] == decoders.BASELINE)
    return found.assign(rank=ranks.mask(is_baseline, BASELINE_RANK).astype(int))


def _over(table: pd.DataFrame) -> pd.Series:
    """The AR run that each run took turns with: its model and its tokens per second."""
    runs = table.drop_duplicates("id").set_index("id")
    words = {
        run: str(model) if missing(speed) else f"{model}, {speed:,.0f} tok/s"
        for run, model, speed in runs[["model", "tokens_per_second"]].itertuples()
    }
    return table["ar_run"].map(words.get)


def _series(records: Sequence[Row]) -> list[str]:
    """The settings common to a line, in words; device, number format and tasks are named if they differ."""
    names = [f"{model_words(row)} · {decoder_words(row)}" for row in records]
    for column in _TELLING:
        values: dict[str, set[object]] = {}
        for name, row in zip(names, records, strict=True):
            # Unknown values count as one: a NaN differs from every other.
            values.setdefault(name, set()).add(None if missing(row[column]) else row[column])
        names = [
            f"{name} · {row[column]}" if len(values[name]) > 1 and not missing(row[column]) else name
            for name, row in zip(names, records, strict=True)
        ]
    counts = Counter(row["tasks"] for row in records)
    usual = counts.most_common(1)[0][0] if counts else ()
    return [name + _unusual_tasks(row, usual) for name, row in zip(names, records, strict=True)]


def _unusual_tasks(row: Row, usual: tuple[str, ...]) -> str:
    """The tasks of a run in words, if they are not those of most runs."""
    tasks = row["tasks"]
    if tasks == usual:
        return ""
    return f" · {', '.join(tasks)}" if len(tasks) < 3 else f" · {len(tasks)} tasks: {tasks[0]}, …"


def _models(table: pd.DataFrame) -> list[str]:
    """The name of each row's model; if several models share it, with its number of conversations or its fingerprint."""
    weights = table.groupby("model.name")["model.fingerprint"].nunique()
    seen = table.groupby("model.name")["model.examples"].nunique()
    names = []
    columns = ["model.name", "model.examples", "model.fingerprint"]
    for name, examples, fingerprint in table[columns].itertuples(index=False):
        if weights[name] < 2:
            names.append(str(name))
        elif seen[name] == weights[name] and not missing(examples):
            names.append(f"{name} ({examples / 1000:.3g}k)")
        else:
            names.append(f"{name} ({str(fingerprint)[:6]})")
    return names


def _ranks(table: pd.DataFrame) -> dict[str, int]:
    """The number of each series' look. Series with most runs get the first looks, which differ most."""
    counts = table["series"].value_counts()
    return {
        name: rank for rank, name in enumerate(sorted(counts.index, key=lambda name: (-counts[name], natural(name))))
    }


def natural(text: str) -> list[tuple[int, float, str]]:
    """A sort key that puts B = 4 before B = 16."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(0, float(part), "") if number % 2 else (1, 0.0, part) for number, part in enumerate(parts) if part]
