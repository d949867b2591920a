"""The names of the marks of a table, the same as in the whole store, so that a filter renames and recolours nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from analysis.figures.style import BASELINE_RANK
from analysis.figures.words import BASELINE_DECODER, PUBLISHED, Row, heeds_threshold, hover, missing, series_words

_TELLING = ("device", "dtype")


def named(table: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    """The table with further columns; `baseline` is the fingerprint of the AR baseline.

    `model` is a name that no two models share, `series` the settings that the runs of a line share, `threshold` the one
    that decided, `rank` the number of the series' look, `over` the AR run of the same turns in words, `hover` the text
    of a mark.
    """
    found = table.assign(model=_models(table))
    found["over"] = _over(found)
    records = found.to_dict("records")
    found["series"] = pd.Series(_series(records), dtype=object, index=found.index)
    found["hover"] = pd.Series([hover(row) for row in records], dtype=object, index=found.index)
    theirs = found["source"] == PUBLISHED
    decided = found["settings.threshold"].astype(float).where([heeds_threshold(row) for row in records])
    found["threshold"] = decided.mask(theirs & (decided >= 1))  # published as τ = 1, run without a threshold
    ranks = found["series"].map(_ranks(found[~theirs]) | _ranks(found[theirs]))
    is_baseline = (found["model.fingerprint"] == baseline) & (found["decoder"] == BASELINE_DECODER) & ~theirs
    return found.assign(rank=ranks.mask(is_baseline, BASELINE_RANK).astype(int))


def _over(table: pd.DataFrame) -> pd.Series:
    """The AR run that each run took turns with: its model and its tokens per second."""
    runs = table.drop_duplicates("id").set_index("id")
    words = [f"{model}, {speed:,.0f} tok/s" for model, speed in runs[["model", "tokens_per_second"]].to_numpy()]
    return table["ar_run"].map(dict(zip(runs.index, words, strict=True)).get)


def _series(records: Sequence[Row]) -> list[str]:
    """The settings common to a line, in words; device, number format and tasks are named if they differ."""
    names = [series_words(row) for row in records]
    for column in _TELLING:
        values: dict[str, set[object]] = {}
        for name, row in zip(names, records, strict=True):
            # What is not known is one value: a NaN differs from every other.
            values.setdefault(name, set()).add(None if missing(row[column]) else row[column])
        names = [
            f"{name} · {row[column]}" if len(values[name]) > 1 and not missing(row[column]) else name
            for name, row in zip(names, records, strict=True)
        ]
    counts = Counter(row["tasks"] for row in records if row["source"] != PUBLISHED)
    usual = counts.most_common(1)[0][0] if counts else ()
    return [name + _task_words(row, usual) for name, row in zip(names, records, strict=True)]


def _task_words(row: Row, usual: tuple[str, ...]) -> str:
    """The tasks of a run in words, if they are not those of most runs or if the run is published."""
    tasks = row["tasks"]
    if row["source"] == PUBLISHED:
        return " · mean" if len(tasks) > 1 else "".join(f" · {task}" for task in tasks)
    if tasks == usual:
        return ""
    return f" · {', '.join(tasks)}" if len(tasks) < 3 else f" · {len(tasks)} tasks: {tasks[0]}, …"


def _models(table: pd.DataFrame) -> list[str]:
    """The name of each row's model; if several models share it, with its number of conversations or its fingerprint.

    Published models have no fingerprints: their block size tells those of one name apart.
    """
    weights = table.groupby("model.name")["model.fingerprint"].nunique()
    seen = table.groupby("model.name")["model.examples"].nunique()
    names = []
    columns = ["model.name", "model.examples", "model.fingerprint", "source", "model.block_size"]
    for name, examples, fingerprint, source, block_size in table[columns].itertuples(index=False):
        if source == PUBLISHED:
            names.append(str(name) if missing(block_size) else f"{name}, B = {int(block_size)}")
        elif weights[name] < 2:
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
