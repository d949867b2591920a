"""The columns of a run's rows and of its mask proposals, and what each may hold (docs/runs.md). No torch here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

ROWS = pa.schema(
    [
        pa.field("task", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("correct", pa.bool_()),
        pa.field("tokens", pa.int64()),
        pa.field("passes", pa.int64()),
        pa.field("seconds", pa.float64()),
        pa.field("model_seconds", pa.float64()),
        pa.field("finish_reason", pa.string()),
        pa.field("acceptance_lengths", pa.list_(pa.int64())),
        pa.field("text", pa.string()),
    ]
)
TURN = pa.field("turn", pa.int64())
"""A further column of timed runs: rows of one number were decoded between two turns of other runs."""
PROPOSALS = pa.schema(
    [
        pa.field("task", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("depth", pa.int8()),
        pa.field("score", pa.float32()),
        pa.field("agrees", pa.bool_()),
    ]
)


def rows_schema(names: Collection[str]) -> pa.Schema:
    """The columns of rows, with the turn where it is among the names."""
    return ROWS.append(TURN) if TURN.name in names else ROWS


def check_rows(table: pa.Table, entry: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of a run as a frame.

    Raises:
        ValueError: a column is missing, of another type or holds what it may not, or problems are missing.
    """
    frame = _frame(table, rows_schema(table.schema.names))
    for name in ("number", "tokens", "passes", "seconds", "model_seconds", TURN.name):
        if name in frame:
            _check_numbers(frame[name])
    if wrong := set(frame["finish_reason"]) - {"stop", "length"}:
        raise ValueError(f"column finish_reason must hold stop or length, got {min(wrong)!r}")
    if (_flattened(table.column("acceptance_lengths")).to_numpy(zero_copy_only=False) < 0).any():
        raise ValueError("column acceptance_lengths must hold no number below 0")
    _check_problems(frame, entry)
    return frame


def check_proposals(table: pa.Table, rows: pd.DataFrame) -> pd.DataFrame:
    """The mask proposals of a run as a frame; `rows` are its rows.

    Raises:
        ValueError: as for the rows, or there are proposals of problems without a row.
    """
    frame = _frame(table, PROPOSALS)
    _check_numbers(frame["score"])
    if len(frame) and frame["depth"].min() < 1:
        raise ValueError(f"column depth must be >= 1, got {frame['depth'].min()}")
    known = pd.MultiIndex.from_frame(rows[["task", "number"]])
    stray = ~pd.MultiIndex.from_frame(frame[["task", "number"]]).isin(known)
    if stray.any():
        first = frame[stray].iloc[0]
        raise ValueError(f"column number has {first['task']} {first['number']}, which is not a row of the run")
    return frame


def _frame(table: pa.Table, schema: pa.Schema) -> pd.DataFrame:
    for field in schema:
        found = table.schema.get_all_field_indices(field.name)
        if len(found) != 1:
            raise ValueError(f"column {field.name} is {'duplicated' if found else 'missing'}")
        kind = table.schema.field(field.name).type
        if kind != field.type and not (pa.types.is_large_string(kind) and pa.types.is_string(field.type)):
            raise ValueError(f"column {field.name} must be {field.type}, got {kind}")
        column = table.column(field.name)
        if column.null_count or (pa.types.is_list(kind) and _flattened(column).null_count):
            raise ValueError(f"column {field.name} must hold no empty values")
    return table.select(schema.names).to_pandas(use_threads=False)  # small, and cores may be busy


def _flattened(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().flatten()


def _check_numbers(column: pd.Series) -> None:
    values = column.to_numpy()
    if not np.isfinite(values).all():
        raise ValueError(f"column {column.name} must hold finite numbers, got {values[~np.isfinite(values)][0]}")
    if (values < 0).any():
        raise ValueError(f"column {column.name} must hold no number below 0, got {values.min()}")


def _check_problems(frame: pd.DataFrame, entry: Mapping[str, Any]) -> None:
    counts = frame.groupby("task")["number"].nunique().to_dict()
    if stray := sorted(set(counts) - set(entry["tasks"])):
        raise ValueError(
            f"column task has {stray[0]}, which is not one of the run's families {', '.join(entry['tasks'])}"
        )
    for task in entry["tasks"]:
        if counts.get(task, 0) != entry["problems"]:
            raise ValueError(f"column number must have {entry['problems']} of {task}, got {counts.get(task, 0)}")
    expected = entry["problems"] * len(entry["tasks"])
    if len(frame) != expected:
        raise ValueError(f"column number must have each problem once, got {len(frame)} rows for {expected} problems")
