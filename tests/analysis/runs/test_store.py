"""The run store: writing replaces or refuses, reading checks, and what is off is named and left out."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis.runs import columns, open_runs, read_runs, write_run
from analysis.runs import files as run_files
from mars.config import DecodingSettings


def test_what_was_written_is_read_sorted(entry: Any, put: Any, tmp_path: Path) -> None:
    put(tmp_path)
    store = read_runs(tmp_path)
    assert (store.problems, store.entries) == ([], [entry()])
    rows = store.rows(entry()["id"])
    assert list(rows["task"] + rows["number"].astype(str)) == ["code0", "code1", "logic0", "logic1"]
    assert list(rows["text"]) == ["", "é\n", "a", "<b>"]
    assert rows["acceptance_lengths"][1].tolist() == [0, 0, 2]
    assert (list(rows["seconds"]), rows["seconds"].dtype) == ([0.5] * 4, "float64")


def test_a_study_is_one_file(entry: Any, rows: pd.DataFrame, tmp_path: Path) -> None:
    write_run(tmp_path, entry("one"), rows)
    write_run(tmp_path, entry("two"), rows.assign(turn=[0, 0, 1, 1]))
    write_run(tmp_path, entry("three", plan=None), rows)
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == ["fabricated.parquet", "families.parquet"]
    store = read_runs(tmp_path)
    assert [found["id"] for found in store.entries] == ["one", "three", "two"]
    assert "turn" not in store.rows("one")
    assert list(store.rows("two")["turn"]) == [1, 0, 0, 1]


def test_a_run_replaces_its_former_self_everywhere(entry: Any, rows: pd.DataFrame, put: Any, tmp_path: Path) -> None:
    put(tmp_path, "run")
    write_run(tmp_path, entry("run", seed=9, plan="another"), rows.assign(text="new"))
    store = read_runs(tmp_path)
    assert [found["seed"] for found in store.entries] == [9]
    assert set(store.rows("run")["text"]) == {"new"}
    assert [path.name for path in tmp_path.glob("*.parquet")] == ["another.parquet"]


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
    path = put(tmp_path, "good")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        write_run(tmp_path, entry(**{"plan": "good", **changed}), change(rows))
    assert path.read_bytes() == before


def test_an_interruption_leaves_the_store_as_it_was(
    entry: Any, rows: pd.DataFrame, put: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "good")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_files.pq, "ParquetWriter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_run(tmp_path, entry("bad", plan="good"), rows)
    store = read_runs(tmp_path)
    assert ([found["id"] for found in store.entries], list(store.problems)) == (["good"], [])
    assert not list(tmp_path.glob(".*parquet*"))


def _write_all(job: tuple[Path, list[dict[str, Any]], pd.DataFrame]) -> None:
    folder, entries, rows = job
    for entry in entries:
        write_run(folder, entry, rows)


def test_several_processes_add_runs_at_once(entry: Any, rows: pd.DataFrame, tmp_path: Path) -> None:
    entries = [entry(f"run{number}") for number in range(10)]
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(_write_all, [(tmp_path, part, rows) for part in (entries[:5], entries[5:])]))
    store = read_runs(tmp_path)
    assert ([found["id"] for found in store.entries], store.problems) == ([f"run{n}" for n in range(10)], [])


def test_rows_are_read_when_asked_for(put: Any, tmp_path: Path) -> None:
    put(tmp_path, "run")
    whole, opened = read_runs(tmp_path), open_runs(tmp_path)
    assert opened.entries == whole.entries
    pd.testing.assert_frame_equal(opened.rows("run"), whole.rows("run"))
    with pytest.raises(ValueError, match="there is no run 'gone'"):
        opened.rows("gone")


def test_rows_cannot_be_changed_from_outside(put: Any, tmp_path: Path) -> None:
    put(tmp_path, "run")
    store = read_runs(tmp_path)
    rows = store.rows("run")
    rows["tokens"] = 0
    assert store.rows("run")["tokens"].sum() == 20


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
    assert (second["n"], second["correct"], second["accuracy"]) == (4, 3, 0.75)
    assert (second["tokens"], second["passes"], second["tokens_per_forward"]) == (20, 10, 2.0)
    assert (second["seconds"], second["tokens_per_second"]) == (2.0, 10.0)


def test_settings_that_came_later_have_their_defaults(put: Any, change_entries: Any, tmp_path: Path) -> None:
    change_entries(put(tmp_path), lambda data: data["runs"][0]["settings"].pop("continuation", None))
    store = read_runs(tmp_path)
    assert store.problems == []
    assert list(store.table()["settings.continuation"]) == [False]


@pytest.mark.parametrize("version", [0, 1, "2", None, True])
def test_another_version_of_the_schema(
    entry: Any, rows: pd.DataFrame, put: Any, change_entries: Any, version: object, tmp_path: Path
) -> None:
    change_entries(put(tmp_path, "run"), lambda data: data.update(schema=version))
    [problem] = read_runs(tmp_path).problems
    assert problem.endswith(f"run.parquet: schema must be 2, got {version!r}")
    with pytest.raises(ValueError, match="schema must be 2"):
        write_run(tmp_path, entry("other", plan="run"), rows)


def test_a_store_of_before_is_named(put: Any, tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "index.json").write_text("{}")
    [problem] = read_runs(tmp_path).problems
    assert problem.endswith("index.json is of an earlier version, which kept a file for each run: measure them again")


def test_an_entry_that_is_none(put: Any, change_entries: Any, only_problem: Any, tmp_path: Path) -> None:
    change_entries(put(tmp_path, "good"), lambda data: data["runs"].append(7))
    assert only_problem(tmp_path).endswith("runs[1] must be an object, got int")


def test_neither_of_two_equal_ids_is_believed(put: Any, change_entries: Any, tmp_path: Path) -> None:
    put(tmp_path, "good")
    change_entries(put(tmp_path, "bad"), lambda data: data["runs"].append(data["runs"][0]))
    store = read_runs(tmp_path)
    assert [found["id"] for found in store.entries] == ["good"]
    assert [problem.partition("bad.parquet: ")[2] for problem in store.problems] == [
        f"runs[{number}].id is that of another run as well: bad" for number in (0, 1)
    ]


def test_an_entry_without_rows(entry: Any, put: Any, change_entries: Any, only_problem: Any, tmp_path: Path) -> None:
    path = put(tmp_path, "good")
    change_entries(path, lambda data: data["runs"].append(entry("bad")))
    assert only_problem(tmp_path) == f"{path}: run bad has no rows"


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file(put: Any, only_problem: Any, share: float, tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")
    path = tmp_path / "bad.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert only_problem(tmp_path).startswith(f"{path}")


def test_bytes_that_changed(put: Any, only_problem: Any, tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    whole = bytearray(path.read_bytes())
    middle = pq.read_metadata(path).row_group(0).total_byte_size // 2
    whole[4:middle] = bytes(middle - 4)
    path.write_bytes(bytes(whole))
    assert only_problem(tmp_path).startswith(f"{path}: ")


def test_entries_that_are_no_json(put: Any, only_problem: Any, tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    table = pq.read_table(path)
    for told in ("", "{", "[]", "[" * 100_000):
        pq.write_table(table.replace_schema_metadata({b"runs": told.encode()}), path)
        assert only_problem(tmp_path).startswith(f"{path}")
