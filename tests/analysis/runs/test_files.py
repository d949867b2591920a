"""Writing a run: it replaces the one of its id, what could not be read is refused, and nothing is left half done."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.runs import files as run_files
from analysis.runs import read_runs, write_run


def test_the_same_id_replaces_and_takes_its_proposals_along(
    entry: Any, rows: pd.DataFrame, put: Any, tmp_path: Path
) -> None:
    put(tmp_path)
    write_run(tmp_path, entry(seed=9), rows.assign(text="new"))
    store = read_runs(tmp_path)
    assert [found["seed"] for found in store.entries] == [9]
    assert set(store.rows(entry()["id"])["text"]) == {"new"}
    assert store.proposals(entry()["id"]) is None
    assert list(tmp_path.glob("*.proposals.parquet")) == []


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1, "runs": [', "[]", "\udcff", "[" * 100_000])
def test_an_index_that_is_none(entry: Any, rows: pd.DataFrame, put: Any, text: str, tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "index.json").write_text(text, errors="surrogateescape")
    store = read_runs(tmp_path)
    assert list(store.entries) == []
    [problem] = store.problems
    assert "index.json" in problem
    with pytest.raises(ValueError, match=r"index\.json"):
        write_run(tmp_path, entry("other"), rows)


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version_of_the_schema(put: Any, change_index: Any, version: object, tmp_path: Path) -> None:
    put(tmp_path)
    change_index(tmp_path, lambda data: data.update(schema=version))
    store = read_runs(tmp_path)
    assert list(store.entries) == []
    assert store.problems[0].endswith(f"index.json: schema must be 1, got {version!r}")


@pytest.mark.parametrize(
    ("changed", "change", "words"),
    [
        ({"id": "../x"}, lambda rows: rows, "entry.id must be a plain file name"),
        ({"problems": 3}, lambda rows: rows, "column number must have 3 of logic, got 2"),
        ({}, lambda rows: rows.drop(columns="text"), "column text is missing"),
        ({}, lambda rows: rows.assign(tokens=1.5), "do not fit"),
        ({}, lambda rows: rows.assign(tokens="many"), "do not fit"),
        ({}, lambda rows: rows.assign(seconds=float("nan")), "column seconds must hold no empty values"),
        ({}, lambda rows: rows.assign(text=None), "column text must hold no empty values"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    entry: Any, rows: pd.DataFrame, put: Any, changed: dict[str, Any], change: Any, words: str, tmp_path: Path
) -> None:
    put(tmp_path, "good")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        write_run(tmp_path, entry(**changed), change(rows))
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_an_interruption_leaves_the_store_as_it_was(
    entry: Any, rows: pd.DataFrame, put: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "good")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_files.pq, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_run(tmp_path, entry("bad"), rows)
    store = read_runs(tmp_path)
    assert ([found["id"] for found in store.entries], list(store.problems)) == (["good"], [])
    assert not list(tmp_path.glob(".*parquet*"))


def _write_all(job: tuple[Path, list[dict[str, Any]], pd.DataFrame, pd.DataFrame]) -> None:
    folder, entries, rows, proposals = job
    for entry in entries:
        write_run(folder, entry, rows, proposals)


def test_several_processes_add_runs_at_once(
    entry: Any, rows: pd.DataFrame, proposals: pd.DataFrame, tmp_path: Path
) -> None:
    entries = [entry(f"run{number}") for number in range(10)]
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(_write_all, [(tmp_path, part, rows, proposals) for part in (entries[:5], entries[5:])]))
    store = read_runs(tmp_path)
    assert ([found["id"] for found in store.entries], store.problems) == ([f"run{n}" for n in range(10)], [])
