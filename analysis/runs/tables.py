"""The columns of a run's rows, and what each may hold (docs/runs.md). No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

RUN = pa.field("run", pa.string())
"""The id of the run that a row belongs to, in the files; a frame holds the rows of one run."""
ROWS = pa.schema(
    {
        "task": pa.string(),
        "number": pa.int64(),
        "correct": pa.bool_(),
        "tokens": pa.int64(),
        "passes": pa.int64(),
        "seconds": pa.float32(),
        "finish_reason": pa.string(),
        "acceptance_lengths": pa.list_(pa.int64()),
        "text": pa.string(),
    }
)
TURN = pa.field("turn", pa.int64())
"""A further column of timed runs: rows of one number were decoded between two turns of other runs."""
AGREEING = pa.field("agreeing", pa.int64())
"""A further column where nobody judged the answers: tokens that one-token mode writes behind the same prefix."""
OPTIONAL = (TURN.name, AGREEING.name)
ALL = pa.schema([*ROWS, TURN, AGREEING])


def frame_of(table: pa.Table, schema: pa.Schema) -> pd.DataFrame:
    """These columns as a frame; optional ones may be missing.

    ValueError where a column is missing, of another type, or has empty values.
    """
    names = [name for name in schema.names if name not in OPTIONAL or name in table.schema.names]
    for name in names:
        found = table.schema.get_all_field_indices(name)
        if len(found) != 1:
            raise ValueError(f"column {name} is {'duplicated' if found else 'missing'}")
        kind, wanted = table.schema.field(name).type, schema.field(name).type
        if not kind.equals(wanted):
            raise ValueError(f"column {name} must be {wanted}, got {kind}")
        column = table.column(name)
        within = pa.types.is_list(kind) and column.combine_chunks().flatten().null_count
        if name not in OPTIONAL and (column.null_count or within):
            raise ValueError(f"column {name} must hold no empty values")
    return table.select(names).to_pandas(use_threads=False)  # small, and cores may be busy


def check_rows(frame: pd.DataFrame, entry: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of a run, without the optional columns that it has not.

    ValueError where a column holds what it may not, or problems are missing.
    """
    for name in OPTIONAL:
        if name in frame and frame[name].isna().all():
            frame = frame.drop(columns=name)
        elif name in frame and frame[name].isna().any():
            raise ValueError(f"column {name} must hold no empty values")
        elif name in frame:
            frame = frame.astype({name: "int64"})
    frame = frame.astype({"seconds": "float64"})  # sums of many
    for name in ("number", "tokens", "passes", "seconds", *OPTIONAL):
        if name in frame:
            _check_numbers(frame[name])
    if wrong := set(frame["finish_reason"]) - {"stop", "length"}:
        raise ValueError(f"column finish_reason must hold stop or length, got {min(wrong)!r}")
    if len(frame) and (np.concatenate(frame["acceptance_lengths"].to_list()) < 0).any():
        raise ValueError("column acceptance_lengths must hold no number below 0")
    _check_problems(frame, entry)
    return frame


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
