"""Reading a store: its rows and its table, and what is off is named and left out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.runs import columns, read_runs, write_run
from mars.config import DecodingSettings

ROOT = Path(__file__).parents[3]


def test_what_was_written_is_read_sorted(entry: Any, proposals: pd.DataFrame, put: Any, tmp_path: Path) -> None:
    put(tmp_path)
    store = read_runs(tmp_path)
    assert store.problems == []
    assert store.entries == [entry()]
    rows = store.rows(entry()["id"])
    assert list(rows["task"] + rows["number"].astype(str)) == ["code0", "code1", "logic0", "logic1"]
    assert list(rows["text"]) == ["", "é\n", "a", "<b>"]
    assert rows["acceptance_lengths"][1].tolist() == [0, 0, 2]
    kept = store.proposals(entry()["id"])
    assert kept is not None
    assert kept.to_dict("list") == proposals.to_dict("list")
    assert (kept.dtypes["depth"], kept.dtypes["score"]) == ("int8", "float32")


def test_rows_of_the_store_cannot_be_changed_from_outside(entry: Any, put: Any, tmp_path: Path) -> None:
    put(tmp_path)
    store = read_runs(tmp_path)
    rows = store.rows(entry()["id"])
    rows["tokens"] = 0
    assert store.rows(entry()["id"])["tokens"].sum() == 20
    with pytest.raises(ValueError, match="there is no run 'other'"):
        store.rows("other")


def test_table_has_a_row_for_every_run(entry: Any, rows: pd.DataFrame, put: Any, tmp_path: Path) -> None:
    put(tmp_path)
    settings = asdict(DecodingSettings(threshold=None))
    write_run(tmp_path, entry("another", settings=settings, draft=entry()["model"]), rows)
    table = read_runs(tmp_path).table()
    assert tuple(table.columns) == columns()
    assert list(table["id"]) == ["another", entry()["id"]]
    first, second = table.to_dict("records")
    assert pd.isna(first["settings.threshold"])
    assert first["draft.name"] == "mars-b8"
    assert pd.isna(second["draft.name"])
    assert (second["model.block_size"], second["settings.threshold"], second["tasks"]) == (8, 0.9, ("logic", "code"))
    assert (second["n"], second["correct"], second["accuracy"], second["source"]) == (4, 3, 0.75, "measured")
    assert (second["tokens"], second["passes"], second["tokens_per_forward"]) == (20, 10, 2.0)
    assert (second["seconds"], second["tokens_per_second"]) == (2.0, 10.0)


def test_an_empty_store_has_an_empty_table(tmp_path: Path) -> None:
    store = read_runs(tmp_path / "nowhere")
    assert (list(store.entries), list(store.problems), len(store.table())) == ([], [], 0)
    assert tuple(store.table().columns) == columns()


def test_settings_that_came_later_have_their_defaults(put: Any, change_index: Any, tmp_path: Path) -> None:
    put(tmp_path)
    change_index(tmp_path, lambda data: data["runs"][0]["settings"].pop("continuation"))
    store = read_runs(tmp_path)
    assert store.problems == []
    assert list(store.table()["settings.continuation"]) == [False]


def test_files_without_an_index(put: Any, tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "index.json").unlink()
    assert "index.json is missing" in read_runs(tmp_path).problems[0]


def test_an_entry_that_is_none(put: Any, change_index: Any, only_problem: Any, tmp_path: Path) -> None:
    put(tmp_path, "good")
    change_index(tmp_path, lambda data: data["runs"].append(7))
    assert only_problem(tmp_path).endswith("runs[1] must be an object, got int")


def test_of_two_runs_with_one_id_neither_is_believed(put: Any, change_index: Any, tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")
    change_index(tmp_path, lambda data: data["runs"].append(data["runs"][0]))
    store = read_runs(tmp_path)
    assert [found["id"] for found in store.entries] == ["good"]
    assert [problem.partition("index.json: ")[2] for problem in store.problems] == [
        "runs[0].id is that of another run as well: bad",
        "runs[2].id is that of another run as well: bad",
    ]


def test_an_entry_whose_file_is_gone(put: Any, only_problem: Any, tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    path.unlink()
    assert only_problem(tmp_path) == f"{path} is missing, although index.json lists the run"


@pytest.mark.parametrize("suffix", [".parquet", ".proposals.parquet"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file(put: Any, only_problem: Any, suffix: str, share: float, tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")
    path = tmp_path / f"bad{suffix}"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert only_problem(tmp_path).startswith(f"{path}: the file is damaged or no Parquet")


def test_bytes_that_changed(put: Any, only_problem: Any, tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    whole = bytearray(path.read_bytes())
    whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)
    path.write_bytes(bytes(whole))
    assert only_problem(tmp_path).startswith(f"{path}: ")


def test_reading_does_not_import_torch() -> None:
    code = "import sys, analysis.runs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
