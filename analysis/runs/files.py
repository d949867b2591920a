"""The files of a run store: their paths, and writing of whole runs by one process at a time. No torch here."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from analysis.runs.schema import SCHEMA, check_entry
from analysis.runs.tables import PROPOSALS, check_proposals, check_rows, rows_schema

INDEX = "index.json"
LOCK = ".lock"
"""Held by the one process that writes to a store."""


def read_index(path: Path) -> list[Any]:
    """The entries of an index, as they are.

    Raises:
        ValueError: the file is no index, or one of another schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or isinstance(data["schema"], bool):
        found = data.get("schema") if isinstance(data, dict) else None
        raise ValueError(f"{path}: schema must be {SCHEMA}, got {found!r}")
    if not isinstance(data.get("runs"), list):
        raise ValueError(f"{path}: runs must be a list, got {type(data.get('runs')).__name__}")
    return data["runs"]


def rows_path(folder: Path, run: str) -> Path:
    """The file of the rows of a run."""
    return folder / f"{run}.parquet"


def proposals_path(folder: Path, run: str) -> Path:
    """The file of the mask proposals of a run, if they were kept."""
    return folder / f"{run}.proposals.parquet"


def write_run(
    folder: Path, entry: Mapping[str, Any], rows: pd.DataFrame, proposals: pd.DataFrame | None = None
) -> None:
    """Add a run, or replace the one with its id; rows may come in any order, whole numbers in any width.

    Raises:
        ValueError: a field or column at fault, or an index that cannot be read; the store is then unchanged.
    """
    check_entry(entry, "entry.")
    table = _table(rows, rows_schema(rows.columns))
    checked = check_rows(table, entry)
    kept = None if proposals is None else _table(proposals, PROPOSALS)
    if kept is not None:
        check_proposals(kept, checked)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / LOCK):
        index = folder / INDEX
        others = read_index(index) if index.exists() else []
        runs = [other for other in others if not (isinstance(other, dict) and other.get("id") == entry["id"])]
        runs.append(dict(entry))
        runs.sort(key=lambda run: str(run.get("id")) if isinstance(run, dict) else "")
        _write_parquet(rows_path(folder, entry["id"]), table)
        if kept is not None:
            _write_parquet(proposals_path(folder, entry["id"]), kept)
        _write_index(index, runs)
        if kept is None:
            proposals_path(folder, entry["id"]).unlink(missing_ok=True)


def remove_runs(folder: Path, unwanted: Callable[[Mapping[str, Any]], bool]) -> int:
    """Remove runs with their files; returns how many.

    Raises:
        ValueError: the index cannot be read.
    """
    index = folder / INDEX
    if not index.is_file():
        return 0
    with FileLock(folder / LOCK):
        runs = read_index(index)
        gone = [run for run in runs if isinstance(run, dict) and unwanted(run)]
        if gone:
            kept = [run for run in runs if run not in gone]
            _write_index(index, kept)
        for run in gone:
            rows_path(folder, run["id"]).unlink(missing_ok=True)
            proposals_path(folder, run["id"]).unlink(missing_ok=True)
    return len(gone)


def _write_index(index: Path, runs: list[Any]) -> None:
    text = json.dumps({"schema": SCHEMA, "runs": runs}, indent=1, ensure_ascii=False) + "\n"
    replace_file(index, lambda place: Path(place).write_text(text, encoding="utf-8"))


def _table(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    for name in schema.names:
        if name not in frame:
            raise ValueError(f"column {name} is missing")
    try:
        table = pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the rows do not fit the columns of the store: {error}") from error
    return table.sort_by([("task", "ascending"), ("number", "ascending")]).replace_schema_metadata(None)


def _write_parquet(path: Path, table: pa.Table) -> None:
    replace_file(path, lambda place: pq.write_table(table, place, compression="zstd", compression_level=19))


def replace_file(path: Path, write: Callable[[str], object]) -> None:
    """Write a file under another name, flush it to the disk, and move it to its place."""
    handle, place = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        os.close(handle)
        write(place)
        with Path(place).open("rb") as file:
            os.fsync(file.fileno())
        Path(place).chmod(0o644)
        Path(place).replace(path)
    except BaseException:
        Path(place).unlink(missing_ok=True)
        raise
