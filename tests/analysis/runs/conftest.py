"""A run as docs/runs.md describes it, stores on disk that have it, and ways to damage them."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis.runs import read_runs, write_run
from mars.config import DecodingSettings
from tests.analysis.conftest import PROVENANCE, model

ENTRY: dict[str, Any] = {
    "id": "mars-b8.sliding_window@0.9.b2.0a",
    "model": model("mars-b8"),
    "draft": None,
    "decoder": "sliding_window",
    "settings": asdict(DecodingSettings(threshold=0.9)),
    "tasks": ["logic", "code"],
    "problems": 2,
    "seed": 3,
    "batch_size": 2,
    "dtype": "float32",
    "device": "cpu",
    "timed": False,
    "group": None,
    **PROVENANCE,
    "commit": None,
}
ROWS = pd.DataFrame(
    {
        "task": ["logic", "code", "code", "logic"],
        "number": [0, 1, 0, 1],
        "correct": [True, False, True, True],
        "tokens": [4, 6, 5, 5],
        "passes": [2, 2, 5, 1],
        "seconds": [0.5, 0.5, 0.5, 0.5],
        "finish_reason": ["stop", "length", "stop", "stop"],
        "acceptance_lengths": [[0, 2], [0, 0, 2], [5], [0, 0, 0, 0, 1]],
        "text": ["a", "é\n", "", "<b>"],
    }
)


@pytest.fixture
def entry() -> Callable[..., dict[str, Any]]:
    """`entry(id, **changes)`: the entry of a run with 2 problems of each of 2 families, or one that differs from it."""

    def changed(run: str = str(ENTRY["id"]), **changes: Any) -> dict[str, Any]:
        return {**deepcopy(ENTRY), "id": run, **changes}

    return changed


@pytest.fixture
def rows() -> pd.DataFrame:
    """The rows of that run, not in the order of the store."""
    return ROWS.copy()


@pytest.fixture
def put(entry: Any, rows: pd.DataFrame) -> Callable[..., Path]:
    """`put(folder, id)`: that run in the store, in a study of its own name; returns the path of its rows."""

    def written(folder: Path, run: str | None = None) -> Path:
        given = entry() if run is None else entry(run, plan=run)
        write_run(folder, given, rows)
        return folder / f"{given['plan']}.parquet"

    return written


@pytest.fixture
def change_entries() -> Callable[[Path, Callable[[Any], object]], None]:
    """`change_entries(path, change)`: the entries of a study as `change` leaves them."""

    def changed(path: Path, change: Callable[[Any], object]) -> None:
        data = json.loads(pq.read_metadata(path).metadata[b"runs"])
        change(data)
        pq.write_table(pq.read_table(path).replace_schema_metadata({b"runs": json.dumps(data)}), path)

    return changed


@pytest.fixture
def only_problem() -> Callable[[Path], str]:
    """`only_problem(folder)`: the one sentence about the store; the run `good` beside what is off is still read."""

    def found(folder: Path) -> str:
        store = read_runs(folder)
        assert [each["id"] for each in store.entries] == ["good"]
        assert store.rows("good")["tokens"].sum() == 20
        [problem] = store.problems
        return problem

    return found
