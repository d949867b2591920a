"""The run store: what was written is read again, and what is off is named and left out."""

import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.runs import files as run_files
from analysis.runs.schema import setting_hash
from analysis.runs import columns, read_runs, write_run
from mars.config import DecodingSettings

ROOT = Path(__file__).parents[3]

MODEL = {
    "name": "mars-b8",
    "fingerprint": "0123456789abcdef",
    "parameters": 12,
    "stage": "mars",
    "block_size": 8,
    "sft_loss": True,
    "examples": 100,
}
ENTRY: dict[str, Any] = {
    "id": "mars-b8.sliding_window@0.9.b2.0a",
    "model": MODEL,
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
    "command": "python",
    "commit": None,
    "hardware": "a processor",
    "threads": 1,
    "processes": 1,
    "torch": "2",
    "transformers": "5",
    "python": "3.11",
    "date": "2026-11-21T13:00:00+00:00",
    "plan": "smoke",
}
ROWS = pd.DataFrame(
    {
        "task": ["logic", "code", "code", "logic"],
        "number": [0, 1, 0, 1],
        "correct": [True, False, True, True],
        "tokens": [4, 6, 5, 5],
        "passes": [2, 2, 5, 1],
        "seconds": [0.5, 0.5, 0.5, 0.5],
        "model_seconds": [0.25, 0.25, 0.25, 0.25],
        "finish_reason": ["stop", "length", "stop", "stop"],
        "acceptance_lengths": [[0, 2], [0, 0, 2], [5], [0, 0, 0, 0, 1]],
        "text": ["a", "é\n", "", "<b>"],
    }
)
PROPOSALS = pd.DataFrame(
    {"task": ["code", "logic"], "number": [1, 0], "depth": [1, 2], "score": [0.5, 0.25], "agrees": [True, False]}
)


def entry(run: str = str(ENTRY["id"]), **changes: Any) -> dict[str, Any]:
    return {**deepcopy(ENTRY), "id": run, **changes}


def put(folder: Path, run: str = str(ENTRY["id"])) -> Path:
    """A run in the store; returns the path of its rows."""
    write_run(folder, entry(run), ROWS, PROPOSALS)
    return folder / f"{run}.parquet"


def change_index(folder: Path, change: Any) -> None:
    index = folder / "index.json"
    data = json.loads(index.read_text())
    change(data)
    index.write_text(json.dumps(data))


def only_problem(folder: Path) -> str:
    """The one sentence about the store; the runs `good` beside what is off is still read."""
    store = read_runs(folder)
    assert [found["id"] for found in store.entries] == ["good"]
    assert store.rows("good")["tokens"].sum() == 20
    [problem] = store.problems
    return problem


def test_what_was_written_is_read_sorted(tmp_path: Path) -> None:
    put(tmp_path)
    store = read_runs(tmp_path)
    assert store.problems == []
    assert store.entries == [ENTRY]
    rows = store.rows(ENTRY["id"])
    assert list(rows["task"] + rows["number"].astype(str)) == ["code0", "code1", "logic0", "logic1"]
    assert list(rows["text"]) == ["", "é\n", "a", "<b>"]
    assert rows["acceptance_lengths"][1].tolist() == [0, 0, 2]
    kept = store.proposals(ENTRY["id"])
    assert kept is not None
    assert kept.to_dict("list") == PROPOSALS.to_dict("list")
    assert (kept.dtypes["depth"], kept.dtypes["score"]) == ("int8", "float32")


def test_rows_of_the_store_cannot_be_changed_from_outside(tmp_path: Path) -> None:
    put(tmp_path)
    store = read_runs(tmp_path)
    rows = store.rows(ENTRY["id"])
    rows["tokens"] = 0
    assert store.rows(ENTRY["id"])["tokens"].sum() == 20
    with pytest.raises(ValueError, match="there is no run 'other'"):
        store.rows("other")


def test_table_has_a_row_for_every_run(tmp_path: Path) -> None:
    put(tmp_path)
    settings = asdict(DecodingSettings(threshold=None))
    write_run(tmp_path, entry("another", settings=settings, draft=MODEL), ROWS)
    table = read_runs(tmp_path).table()
    assert tuple(table.columns) == columns()
    assert list(table["id"]) == ["another", ENTRY["id"]]
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


def test_the_same_id_replaces_and_takes_its_proposals_along(tmp_path: Path) -> None:
    put(tmp_path)
    write_run(tmp_path, entry(seed=9), ROWS.assign(text="new"))
    store = read_runs(tmp_path)
    assert [found["seed"] for found in store.entries] == [9]
    assert set(store.rows(ENTRY["id"])["text"]) == {"new"}
    assert store.proposals(ENTRY["id"]) is None
    assert list(tmp_path.glob("*.proposals.parquet")) == []


def test_settings_that_came_later_have_their_defaults(tmp_path: Path) -> None:
    put(tmp_path)
    change_index(tmp_path, lambda data: data["runs"][0]["settings"].pop("continuation"))
    store = read_runs(tmp_path)
    assert store.problems == []
    assert list(store.table()["settings.continuation"]) == [False]


def test_the_hash_is_that_of_the_setting() -> None:
    assert setting_hash(ENTRY) == setting_hash(entry("other", date="2027-01-01T00:00:00+00:00", commit="f00"))
    assert setting_hash(ENTRY) != setting_hash(entry(batch_size=4))
    assert setting_hash(ENTRY) != setting_hash(entry(settings={**ENTRY["settings"], "threshold": None}))


def test_reading_does_not_import_torch() -> None:
    code = "import sys, analysis.runs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1, "runs": [', "[]", "\udcff", "[" * 100_000])
def test_an_index_that_is_none(text: str, tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "index.json").write_text(text, errors="surrogateescape")
    store = read_runs(tmp_path)
    assert list(store.entries) == []
    [problem] = store.problems
    assert "index.json" in problem
    with pytest.raises(ValueError, match=r"index\.json"):
        write_run(tmp_path, entry("other"), ROWS)


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version_of_the_schema(version: object, tmp_path: Path) -> None:
    put(tmp_path)
    change_index(tmp_path, lambda data: data.update(schema=version))
    store = read_runs(tmp_path)
    assert list(store.entries) == []
    assert store.problems[0].endswith(f"index.json: schema must be 1, got {version!r}")


def test_files_without_an_index(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "index.json").unlink()
    assert "index.json is missing" in read_runs(tmp_path).problems[0]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("id", "../good", "id must be a plain file name"),
        ("id", ".hidden", "id must be a plain file name"),
        ("id", "a/b", "id must be a plain file name"),
        ("id", ["a"], "id must be a plain file name"),
        ("model", "mars", "model must be an object, got 'mars'"),
        ("model.fingerprint", "xyz", "model.fingerprint must be 16 hexadecimal digits"),
        ("model.stage", "dpo", "model.stage must be one of sft, mars, block_diffusion or null, got 'dpo'"),
        ("model.stage", ["sft"], "model.stage must be one of"),
        ("model.parameters", True, "model.parameters must be a whole number >= 1, got True"),
        ("draft", 3, "draft must be an object"),
        ("harness", "gsm8k", "harness must be an object where it is there, got 'gsm8k'"),
        ("settings", None, "settings must be an object"),
        ("settings.threshold", float("nan"), "settings.threshold must be like 0.95, got nan"),
        ("settings.block_size", "8", "settings.block_size must be like 8, got '8'"),
        ("settings.block_size", 1000, "settings: block_size must be between 1 and 64, got 1000"),
        ("settings.luck", 1, "settings: "),
        ("tasks", [], "tasks must be a list of names, each once"),
        ("tasks", "logic", "tasks must be a list of names"),
        ("problems", 0, "problems must be a whole number >= 1, got 0"),
        ("batch_size", 2.0, "batch_size must be a whole number >= 1, got 2.0"),
        ("seed", -1, "seed must be a whole number >= 0, got -1"),
        ("device", "tpu", "device must be cpu or cuda"),
        ("timed", 1, "timed must be true or false"),
        ("timed", True, "group must be a name in timed runs and null in others"),
        ("date", "yesterday", "date must be a date and time"),
        ("date", "2026-11-21T13:00:00", "date must be a date and time with its zone"),
        ("threads", None, "threads must be a whole number >= 1"),
        ("plan", "", "plan must be a word or null"),
    ],
)
def test_a_field_that_is_off(path: str, value: object, words: str, tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")

    def change(data: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        place = data["runs"][0]
        for name in outer:
            place = place[name]
        place[last] = value

    change_index(tmp_path, change)
    assert f"index.json: runs[0].{words}" in only_problem(tmp_path)


@pytest.mark.parametrize("path", ["id", "decoder", "plan", "model.name", "timed"])
def test_a_field_that_is_missing(path: str, tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")

    def change(data: dict[str, Any]) -> None:
        place = data["runs"][0]
        for name in path.split(".")[:-1]:
            place = place[name]
        del place[path.split(".")[-1]]

    change_index(tmp_path, change)
    problem = only_problem(tmp_path)
    assert f"runs[0].{path} " in problem


def test_an_entry_that_is_none(tmp_path: Path) -> None:
    put(tmp_path, "good")
    change_index(tmp_path, lambda data: data["runs"].append(7))
    assert only_problem(tmp_path).endswith("runs[1] must be an object, got int")


def test_of_two_runs_with_one_id_neither_is_believed(tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")
    change_index(tmp_path, lambda data: data["runs"].append(data["runs"][0]))
    store = read_runs(tmp_path)
    assert [found["id"] for found in store.entries] == ["good"]
    assert [problem.partition("index.json: ")[2] for problem in store.problems] == [
        "runs[0].id is that of another run as well: bad",
        "runs[2].id is that of another run as well: bad",
    ]


def test_an_entry_whose_file_is_gone(tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    path.unlink()
    assert only_problem(tmp_path) == f"{path} is missing, although index.json lists the run"


@pytest.mark.parametrize("suffix", [".parquet", ".proposals.parquet"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file(suffix: str, share: float, tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")
    path = tmp_path / f"bad{suffix}"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert only_problem(tmp_path).startswith(f"{path}: the file is damaged or no Parquet")


def test_bytes_that_changed(tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    whole = bytearray(path.read_bytes())
    whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)
    path.write_bytes(bytes(whole))
    assert only_problem(tmp_path).startswith(f"{path}: ")


def _null(table: pa.Table, name: str) -> pa.Table:
    place = table.schema.get_field_index(name)
    values = table.column(name).to_pylist()
    return table.set_column(place, name, pa.array([None, *values[1:]], table.schema.field(name).type))


def _set(table: pa.Table, name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, pa.array(values, kind or table.schema.field(name).type))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop_columns(["tokens"]), "column tokens is missing"),
        (lambda table: table.append_column("text", table.column("text")), "column text is there twice"),
        (lambda table: _set(table, "tokens", [1.0] * 4, pa.float64()), "column tokens must be int64, got double"),
        (lambda table: _set(table, "correct", [1, 0, 1, 1], pa.int64()), "column correct must be bool, got int64"),
        (lambda table: _set(table, "acceptance_lengths", [[1.5]] * 4, pa.list_(pa.float64())), "must be list<"),
        (lambda table: _null(table, "passes"), "column passes must hold no empty values"),
        (lambda table: _set(table, "acceptance_lengths", [[None]] * 4), "acceptance_lengths must hold no empty values"),
        (lambda table: _set(table, "seconds", [1, float("nan"), 1, 1]), "seconds must hold finite numbers, got nan"),
        (lambda table: _set(table, "model_seconds", [1, 1, 1, float("inf")]), "model_seconds must hold finite numbers"),
        (lambda table: _set(table, "tokens", [1, -2, 1, 1]), "column tokens must hold no number below 0, got -2"),
        (
            lambda table: _set(table, "acceptance_lengths", [[0, -1]] * 4),
            "acceptance_lengths must hold no number below",
        ),
        (lambda table: _set(table, "finish_reason", ["stop"] * 3 + ["tired"]), "must hold stop or length, got 'tired'"),
        (lambda table: table.slice(0, 3), "column number must have 2 of logic, got 1"),
        (lambda table: table.slice(0, 0), "column number must have 2 of logic, got 0"),
        (lambda table: pa.concat_tables([table, table]), "must have each problem once, got 8 rows for 4 problems"),
        (lambda table: _set(table, "number", [0, 0, 0, 1]), "column number must have 2 of code, got 1"),
        (lambda table: _set(table, "task", ["code", "code", "logic", "chess"]), "column task has chess, which is none"),
    ],
)
def test_rows_that_are_off(change: Any, words: str, tmp_path: Path) -> None:
    path = put(tmp_path, "bad")
    put(tmp_path, "good")
    pq.write_table(change(pq.read_table(path)), path)
    problem = only_problem(tmp_path)
    assert problem.startswith(f"{path}: ")
    assert words in problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop_columns(["agrees"]), "column agrees is missing"),
        (lambda table: _set(table, "depth", [1, 2], pa.int64()), "column depth must be int8, got int64"),
        (lambda table: _set(table, "depth", [0, 2]), "column depth must be >= 1, got 0"),
        (lambda table: _set(table, "score", [float("nan"), 0]), "column score must hold finite numbers, got nan"),
        (lambda table: _set(table, "number", [1, 7]), "column number has logic 7, which is no row of the run"),
    ],
)
def test_proposals_that_are_off(change: Any, words: str, tmp_path: Path) -> None:
    put(tmp_path, "bad")
    put(tmp_path, "good")
    path = tmp_path / "bad.proposals.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    assert only_problem(tmp_path) == f"{path}: {words}"


@pytest.mark.parametrize(
    ("changed", "rows", "words"),
    [
        ({"id": "../x"}, ROWS, "entry.id must be a plain file name"),
        ({"problems": 3}, ROWS, "column number must have 3 of logic, got 2"),
        ({}, ROWS.drop(columns="text"), "column text is missing"),
        ({}, ROWS.assign(tokens=1.5), "do not fit"),
        ({}, ROWS.assign(tokens="many"), "do not fit"),
        ({}, ROWS.assign(seconds=float("nan")), "column seconds must hold no empty values"),
        ({}, ROWS.assign(text=None), "column text must hold no empty values"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    changed: dict[str, Any], rows: pd.DataFrame, words: str, tmp_path: Path
) -> None:
    put(tmp_path, "good")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        write_run(tmp_path, entry(**changed), rows)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_an_interruption_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "good")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_files.pq, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_run(tmp_path, entry("bad"), ROWS)
    store = read_runs(tmp_path)
    assert ([found["id"] for found in store.entries], list(store.problems)) == (["good"], [])
    assert not list(tmp_path.glob(".*parquet*"))


def _put_some(job: tuple[Path, int]) -> None:
    folder, first = job
    for number in range(first, first + 5):
        put(folder, f"run{number}")


def test_several_processes_add_runs_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(_put_some, [(tmp_path, 0), (tmp_path, 5)]))
    store = read_runs(tmp_path)
    assert ([found["id"] for found in store.entries], store.problems) == ([f"run{n}" for n in range(10)], [])
