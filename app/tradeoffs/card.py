"""The card of a mark: its setting, its measured values, its provenance, and the actions on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.figures.words import (
    MEASURES,
    PUBLISHED,
    SOURCE,
    Row,
    decoder_words,
    heeds_threshold,
    missing,
    model_words,
    task_words,
    threshold_words,
)
from app.tradeoffs.run_cache import Store
from app.tradeoffs.samples import NO_SUCH_RUN, Entry, entry_of
from app.tradeoffs.weights import named
from mars import decoders
from mars.config import DEFAULTS, METHOD_FIELDS
from mars.tasks import TASKS

NO_ROWS = (
    f"Published ({SOURCE}): only this number is known. It has no interval, no texts, and was measured on other models "
    "and tasks."
)
_PROVENANCE = (
    ("hardware", "Hardware"),
    ("device", "Device"),
    ("dtype", "Number format"),
    ("threads", "Threads"),
    ("batch_size", "Batch size"),
    ("seed", "Seed"),
    ("date", "Date"),
    ("plan", "Plan"),
    ("group", "Timed group"),
    ("commit", "Commit"),
    ("torch", "torch"),
    ("transformers", "transformers"),
    ("python", "Python"),
    ("table", "Table"),
    ("id", "Id"),
)


def card(store: Store, table: pd.DataFrame, run: str, sources: Mapping[str, str]) -> dict[str, Any]:
    """The card of the run with this id; `sources` are the checkpoints of the app by name.

    Raises:
        ValueError: there is no such run.
    """
    found = table[table["id"] == run]
    if found.empty:
        raise ValueError(NO_SUCH_RUN)
    row = found.iloc[0].to_dict()
    shown = {
        "id": run,
        "model": called(row),
        "setting": " · ".join(filter(None, (setting_words(row), _batch(row)))),
        "measures": [_measure(row, name) for name in MEASURES if not missing(row.get(name))],
        "facts": _facts(row),
    }
    if row["source"] == PUBLISHED:
        return shown | {
            "published": True,
            "note": NO_ROWS,
            "command": "",
            "choice": None,
            "tasks": [],
            "again": NO_ROWS,
        }
    entry = entry_of(store.runs, run)
    checkpoint, draft = named(entry["model"], sources), named(entry["draft"], sources)
    lacking = why_not(entry, checkpoint, draft)
    return shown | {
        "published": False,
        "note": "",
        "command": entry["command"],
        "choice": None if lacking else lane_choice(entry, row, checkpoint, draft),
        "lacking": lacking,
        "again": lacking or _no_problems(entry),
        "tasks": [{"value": task, "label": task_words(task)} for task in entry["tasks"]],
    }


def why_not(entry: Entry, checkpoint: str | None, draft: str | None) -> str:
    """One sentence why the app cannot decode as this run did; empty if it can."""
    for model, name, option in ((entry["model"], checkpoint, ""), (entry["draft"], draft, " as the draft")):
        if model is not None and name is None:
            return (
                f"The app has no checkpoint with the weights of {model['name']}{option} (fingerprint "
                f"{model['fingerprint'][:6]}…); start it with --checkpoint {model['name'].rsplit('/', 1)[-1]}=FOLDER."
            )
    return ""


def lane_choice(entry: Entry, row: Row, checkpoint: str | None, draft: str | None) -> dict[str, Any]:
    """The fields of a lane of Compare that decodes as this run did, at the run's threshold and not the slider's."""
    settings = {name.removeprefix("settings."): value for name, value in row.items() if name.startswith("settings.")}
    threshold = settings["threshold"] if heeds_threshold(row) else None
    names = ("block_size", *(name for name in METHOD_FIELDS if name != "threshold"))
    return {name: type(DEFAULTS[name])(settings[name]) for name in names} | {
        "checkpoint": checkpoint,
        "decoder": entry["decoder"],
        "draft": draft,
        "follows": False,
        "threshold": None if threshold is None or missing(threshold) else float(threshold),
    }


def _no_problems(entry: Entry) -> str:
    unknown = [task for task in entry["tasks"] if entry.get("harness") or task not in TASKS]
    if not unknown:
        return ""
    return f"The app does not have the questions of {unknown[0]}, so its texts are shown as they were stored."


def _measure(row: Row, name: str) -> dict[str, str]:
    label, factor, form, unit = MEASURES[name]
    value, *ends = (factor * row[column] for column in (name, f"{name}_low", f"{name}_high"))
    low, high = sorted(ends)
    if name == "speedup" and not missing(row.get("over")):
        label = f"Against AR, measured in turn with it ({row['over']})"
    return {
        "label": label[0].upper() + label[1:],
        "value": f"{value:{form}}{unit}",
        "interval": "" if missing(low) else f"{low:{form}} to {high:{form}}",
    }


def called(row: Row) -> str:
    """The title of its decoder, with its threshold."""
    info = decoders.TABLE.get(row["decoder"])
    return " at ".join(word for word in (info.title if info else str(row["decoder"]), threshold_words(row)) if word)


def setting_words(row: Row) -> str:
    """Model, decoder and threshold of a run in a line."""
    return " · ".join(filter(None, (model_words(row), decoder_words(row), threshold_words(row))))


def _batch(row: Row) -> str:
    return "" if missing(row.get("batch_size")) else f"batch size {int(row['batch_size'])}"


def _facts(row: Row) -> list[list[str]]:
    n = [] if missing(row.get("n")) else [["Problems", f"n = {int(row['n']):,}: {_tasks(row)}"]]
    settings = {
        name.removeprefix("settings."): _plain(value)
        for name, value in row.items()
        if name.startswith("settings.") and not missing(value)
    }
    facts = [[label, _text(row[name])] for name, label in _PROVENANCE if not missing(row.get(name))]
    return [*n, *facts, *([["All settings", json.dumps(settings)]] if settings else [])]


def _tasks(row: Row) -> str:
    tasks = row["tasks"]
    return ", ".join(task_words(task) for task in tasks) if isinstance(tasks, tuple) else str(tasks)


def _text(value: Any) -> str:
    return f"{int(value)}" if isinstance(value, float) and value == int(value) else str(value)


def _plain(value: Any) -> Any:
    """A cell of a table for JSON; a float that is a whole number becomes an int, undoing pandas' conversion."""
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value == int(value) and value != 0 else value
