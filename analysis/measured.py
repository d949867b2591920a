"""The measured tables of a store, kept beside its runs, so that a page need not read and measure them all again.

`python -m analysis measured` writes the file. It is valid only for the very runs that it was made from: after any
change of these it is ignored until it is made again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.points import POOLED, measure
from analysis.runs import RunStore, read_runs
from analysis.runs.files import study_files

CHAT = "chat"
"""Of ordinary questions, which nobody judges: a way to look at the pair beside its families."""
FILE = "measured.json.gz"
VERSION = 6
"""One more after a change of what is measured or of what marks are called."""


def families(runs: RunStore) -> list[str]:
    """The families that runs were measured on together, and chat; empty if there is only one."""
    several = [one["tasks"] for one in runs.entries if len(one["tasks"]) > 1 or one["tasks"] == [CHAT]]
    names = sorted({task for tasks in several for task in tasks}, key=lambda task: (task == CHAT, task))
    return names if len(names) > 1 else []


def write_measured(folder: Path, progress: Callable[[int], object] = lambda _: None) -> Path:
    """Measure the runs of a folder, over all families and for each, and keep the tables there; returns the file.

    ValueError where there is no run, or one cannot be used.
    """
    runs = read_runs(folder)
    if runs.problems or not runs.entries:
        raise ValueError(runs.problems[0] if runs.problems else f"{folder} has no runs")
    tables = {task: measure(runs, families=(task,), progress=progress) for task in (POOLED, *families(runs))}
    content = {"of": _digest(folder), "tables": {task: _packed(table) for task, table in tables.items()}}
    file = folder / FILE
    file.write_bytes(gzip.compress(json.dumps(content, ensure_ascii=False).encode(), mtime=0))
    return file


def read_measured(folder: Path) -> Callable[[str], pd.DataFrame] | None:
    """The tables of `measure` by the name of the family.

    None if there are no tables of these very runs. ValueError where the file is damaged.
    """
    file = folder / FILE
    if not file.is_file():
        return None
    try:
        content = json.loads(gzip.decompress(file.read_bytes()))
        if content["of"] != _digest(folder):
            return None
        tables = content["tables"]
        return cache(lambda task: _unpacked(tables[task]))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged ({type(error).__name__}): make it again") from error


def _digest(folder: Path) -> str:
    """A hash of the runs."""
    digest = hashlib.sha256(f"{VERSION}".encode())
    for file in study_files(folder):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _packed(table: pd.DataFrame) -> str:
    """A table as a separate text, which is parsed only when its family is asked for."""
    kinds = {name: str(kind) for name, kind in table.dtypes.items()}
    rows = table.astype(object).to_numpy().tolist()
    return json.dumps({"kinds": kinds, "rows": rows}, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """A number or bool of NumPy as Python's."""
    return value.item()


def _unpacked(packed: str) -> pd.DataFrame:
    content = json.loads(packed)
    table = pd.DataFrame(content["rows"], columns=list(content["kinds"]), dtype=object)
    table["tasks"] = table["tasks"].map(tuple)
    return table.astype(content["kinds"]).copy()  # in one piece: each selection would copy 80 columns one by one
