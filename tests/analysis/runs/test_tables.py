"""The columns of rows, and what each may hold."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def _null(table: pa.Table, name: str) -> pa.Table:
    place = table.schema.get_field_index(name)
    values = table.column(name).to_pylist()
    return table.set_column(place, name, pa.array([None, *values[1:]], table.schema.field(name).type))


def damage(path: Path, change: Any) -> None:
    """The file of a study with its entries as they are, and a changed table."""
    table = change(pq.read_table(path))
    pq.write_table(table.replace_schema_metadata(pq.read_metadata(path).metadata), path)


def _set(table: pa.Table, name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, pa.array(values, kind or table.schema.field(name).type))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop_columns(["tokens"]), "column tokens is missing"),
        (lambda table: table.append_column("text", table.column("text")), "column text is duplicated"),
        (lambda table: _set(table, "tokens", [1.0] * 4, pa.float64()), "column tokens must be int64, got double"),
        (lambda table: _set(table, "correct", [1, 0, 1, 1], pa.int64()), "column correct must be bool, got int64"),
        (lambda table: _set(table, "acceptance_lengths", [[1.5]] * 4, pa.list_(pa.float64())), "must be list<"),
        (lambda table: _null(table, "passes"), "column passes must hold no empty values"),
        (
            lambda table: table.append_column("agreeing", pa.array([1, None, 1, 1])),
            "column agreeing must hold no empty values",
        ),
        (lambda table: _set(table, "acceptance_lengths", [[None]] * 4), "acceptance_lengths must hold no empty values"),
        (lambda table: _set(table, "seconds", [1, float("nan"), 1, 1]), "seconds must hold finite numbers, got nan"),
        (lambda table: _set(table, "tokens", [1, -2, 1, 1]), "column tokens must hold no number below 0, got -2"),
        (
            lambda table: _set(table, "acceptance_lengths", [[0, -1]] * 4),
            "acceptance_lengths must hold no number below",
        ),
        (lambda table: _set(table, "finish_reason", ["stop"] * 3 + ["tired"]), "must hold stop or length, got 'tired'"),
        (lambda table: table.slice(0, 3), "column number must have 2 of logic, got 1"),
        (lambda table: table.slice(0, 0), "run bad has no rows"),
        (lambda table: _set(table, "run", ["bad"] * 3 + ["other"]), "column number must have 2 of logic, got 1"),
        (lambda table: pa.concat_tables([table, table]), "must have each problem once, got 8 rows for 4 problems"),
        (lambda table: _set(table, "number", [0, 0, 0, 1]), "column number must have 2 of code, got 1"),
        (
            lambda table: _set(table, "task", ["code", "code", "logic", "chess"]),
            "column task has chess, which is not one of",
        ),
    ],
)
def test_rows_that_are_off(put: Any, only_problem: Any, change: Any, words: str, tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    damage(path, change)
    problem = only_problem(tmp_path)
    assert problem.startswith(f"{path}: ")
    assert words in problem
