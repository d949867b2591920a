"""The files of a run store, one for each study: reading them, and writing by one process at a time. No torch here."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock

from analysis.runs.schema import SCHEMA, check_entry
from analysis.runs.tables import ALL, OPTIONAL, RUN, check_rows, frame_of

_ENTRIES = b"runs"
_LOCK = ".lock"
"""Held by the one process that writes to a store."""
_WHOLE = 2**28
"""Bytes: a text that several runs wrote is stored once, however many texts there are."""


def study_of(entry: Mapping[str, Any]) -> str:
    """The study of a run, which names its file: its plan, or the benchmark that it answers."""
    tasks = entry["tasks"]
    return re.sub(r"[^A-Za-z0-9_@+=-]+", "-", str(entry["plan"] or (tasks[0] if len(tasks) == 1 else "families")))


def study_files(folder: Path) -> list[Path]:
    """The files of the studies in a folder; older stores had mask proposals beside them."""
    return sorted(path for path in folder.glob("*.parquet") if not path.name.endswith(".proposals.parquet"))


def read_entries(path: Path) -> list[Any]:
    """The entries of the runs in the file of a study, as they are.

    ValueError where the file is damaged, holds no runs, or runs of another schema.
    """
    try:
        data = json.loads((pq.read_metadata(path).metadata or {})[_ENTRIES])
    except (OSError, pa.ArrowException, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged or holds no runs: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or isinstance(data["schema"], bool):
        found = data.get("schema") if isinstance(data, dict) else None
        raise ValueError(f"{path}: schema must be {SCHEMA}, got {found!r}")
    if not isinstance(data.get("runs"), list):
        raise ValueError(f"{path}: runs must be a list, got {type(data.get('runs')).__name__}")
    return data["runs"]


def read_rows(path: Path) -> dict[str, pd.DataFrame]:
    """The rows of a study by the id of their run, not yet checked beyond their types.

    ValueError where the file is damaged, or a column is missing or of another type.
    """
    try:
        frame = frame_of(_read(path), pa.schema([RUN, *ALL]))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    parts = frame.groupby(RUN.name, sort=False)
    return {str(run): part.drop(columns=RUN.name).reset_index(drop=True) for run, part in parts}


def write_run(folder: Path, entry: Mapping[str, Any], rows: pd.DataFrame) -> None:
    """Add a run, or replace the one with its id; rows may come in any order, whole numbers in any width.

    ValueError names the field or column at fault, or a study that cannot be read; the store is then unchanged.
    """
    check_entry(entry, "entry.")
    own = pa.schema([column for column in ALL if column.name in rows or column.name not in OPTIONAL])
    table = _table(rows, own, entry["id"])
    check_rows(frame_of(table, table.schema), entry)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / _LOCK):
        home = folder / f"{study_of(entry)}.parquet"
        before = {path: read_entries(path) for path in study_files(folder)}
        others = _without(before.get(home, []), {entry["id"]})
        _write_study(home, [*others, dict(entry)], table)
        for path, entries in before.items():
            if path != home and len(left := _without(entries, {entry["id"]})) < len(entries):
                _write_study(path, left)


def _without(entries: Sequence[Any], ids: set[str]) -> list[Any]:
    return [run for run in entries if not (isinstance(run, dict) and run.get("id") in ids)]


def _write_study(path: Path, entries: list[Any], more: pa.Table | None = None) -> None:
    """The file of a study with the rows that it has of these runs, and with more; without runs the file goes."""
    if not entries:
        path.unlink(missing_ok=True)
        return
    new = set(more.column(RUN.name).unique().to_pylist()) if more is not None else set()
    stay = {run["id"] for run in entries if isinstance(run, dict)} - new
    ordered = sorted(entries, key=lambda run: str(run.get("id")) if isinstance(run, dict) else "")
    parts = [_read(path)] if path.is_file() else []
    parts = [part.filter(pc.is_in(part.column(RUN.name), pa.array(sorted(stay), pa.string()))) for part in parts]
    whole = pa.concat_tables([*parts, *([] if more is None else [more])], promote_options="default")
    whole = whole.sort_by([(name, "ascending") for name in (RUN.name, "task", "number")])
    listed = json.dumps({"schema": SCHEMA, "runs": ordered}, ensure_ascii=False)
    _write_parquet(path, whole.replace_schema_metadata(None), {_ENTRIES: listed})


def _read(path: Path) -> pa.Table:
    try:
        return pq.ParquetFile(path).read(use_threads=False)  # small, and cores may be busy
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"the file is damaged or no Parquet: {error}") from error


def _table(frame: pd.DataFrame, schema: pa.Schema, run: str) -> pa.Table:
    for name in schema.names:
        if name not in frame:
            raise ValueError(f"column {name} is missing")
    try:
        table = pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the rows do not fit the columns of the store: {error}") from error
    ordered = table.sort_by([("task", "ascending"), ("number", "ascending")]).replace_schema_metadata(None)
    return ordered.add_column(0, RUN, pa.array([run] * len(ordered), RUN.type))


def _write_parquet(path: Path, table: pa.Table, told: Mapping[bytes, str]) -> None:
    def write(place: str) -> None:
        options = {"compression": "zstd", "compression_level": 15, "dictionary_pagesize_limit": _WHOLE}
        with pq.ParquetWriter(place, table.schema, store_schema=False, **options) as writer:
            writer.write_table(table, row_group_size=max(1, len(table)))
            writer.add_key_value_metadata(told)

    replace_file(path, write)


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
