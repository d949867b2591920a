"""Sweeps: what is there is skipped, and what was interrupted goes on."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.runs import read_runs
from analysis.sweeps import sweep as sweep_module
from analysis.sweeps.jobs import Chunk, Job, decode_chunk
from analysis.sweeps.work import Work
from mars.checkpoint import Checkpoint

HEAD = """schema = 1
problems = 3
seed = 7
tasks = ["logic", "table_lookup"]
batch_sizes = [2]
device = "cpu"
max_new_tokens = 6
chunk = 2
"""
TIMES = ["seconds"]


def group(folder: Path, decoders: str, more: str = "") -> str:
    return f'[[group]]\nname = "g"\ncheckpoints = ["{folder}"]\ndecoders = [{decoders}]\n{more}\n'


@pytest.fixture
def plan(tiny_folder: Path, tmp_path: Path) -> Path:
    """Three runs of three chunks each."""
    window = group(tiny_folder, '"autoregressive", "sliding_window"', "thresholds = 0.5")
    exact = group(tiny_folder, '"self_speculative"', 'layouts = "quadratic"')
    path = tmp_path / "small.toml"
    path.write_text(HEAD + window + exact)
    return path


def swept(plan: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["sweep", str(plan), "--runs", str(runs), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def contents(runs: Path) -> dict[str, pd.DataFrame]:
    """What must not depend on how the runs came about."""
    store = read_runs(runs)
    assert store.problems == []
    return {entry["id"]: store.rows(entry["id"]).drop(columns=TIMES) for entry in store.entries}


def same(some: dict[str, Any], others: dict[str, Any]) -> None:
    assert list(some) == list(others)
    for run, rows in some.items():
        pd.testing.assert_frame_equal(rows, others[run])


def test_runs_are_made_once(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    first = swept(plan, runs, capsys)
    assert (len(first["run"]), first["skipped"]) == (3, [])
    assert first["seconds"] > 0
    store = read_runs(runs)
    assert [len(store.rows(run)) for run in first["run"]] == [6, 6, 6]
    entry = next(entry for entry in store.entries if entry["decoder"] == "sliding_window")
    assert (entry["plan"], entry["processes"], entry["timed"], entry["batch_size"]) == ("small", 1, False, 2)
    assert entry["command"].startswith("python -m analysis")
    assert list((runs / "work").glob("*.jsonl")) == []
    before = {path: path.stat().st_mtime_ns for path in runs.glob("*.*")}
    again = swept(plan, runs, capsys)
    assert (again["run"], sorted(again["skipped"])) == ([], sorted(first["run"]))
    assert {path: path.stat().st_mtime_ns for path in runs.glob("*.*")} == before


def test_a_damaged_file_is_named(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    first = swept(plan, runs, capsys)
    expected = contents(runs)
    [file] = runs.glob("*.parquet")
    file.write_bytes(b"nothing")
    assert main(["sweep", str(plan), "--runs", str(runs), "--json"]) == 2
    assert file.name in capsys.readouterr().err, "nothing is written over what cannot be read"
    file.unlink()
    assert sorted(swept(plan, runs, capsys)["run"]) == sorted(first["run"])
    same(contents(runs), expected)


class Interrupted:
    """Decodes so many chunks, then is interrupted in the middle of one; `done` counts those of each run."""

    def __init__(self, chunks: int):
        self.left = chunks
        self.done: Counter[str] = Counter()

    def __call__(self, checkpoint: Checkpoint, job: Job, places: Sequence[int]) -> Chunk:
        found = decode_chunk(checkpoint, job, places)
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.done[job.id] += 1
        return found


def test_an_interrupted_sweep_goes_on_at_the_chunk(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, runs = tmp_path / "whole", tmp_path / "runs"
    swept(plan, whole, capsys)
    first = Interrupted(4)
    monkeypatch.setattr(sweep_module, "decode_chunk", first)
    assert main(["sweep", str(plan), "--runs", str(runs)]) == 130
    assert len(read_runs(runs).entries) == 1
    [work] = (runs / "work").glob("*.jsonl")
    with work.open("a") as file:
        file.write('{"size": 2, "chunk": 1, "ro')  # killed while it wrote
    then = Interrupted(100)
    monkeypatch.setattr(sweep_module, "decode_chunk", then)
    found = swept(plan, runs, capsys)
    assert (len(found["run"]), len(found["skipped"])) == (2, 1)
    assert sorted(then.done.values()) == [2, 3]
    assert sorted((first.done + then.done).values()) == [3, 3, 3]
    same(contents(runs), contents(whole))


def test_chunks_of_another_size_are_not_mixed_in(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, runs = tmp_path / "whole", tmp_path / "runs"
    swept(plan, whole, capsys)
    monkeypatch.setattr(sweep_module, "decode_chunk", Interrupted(2))
    assert main(["sweep", str(plan), "--runs", str(runs)]) == 130
    monkeypatch.undo()
    plan.write_text(plan.read_text().replace("chunk = 2", "chunk = 4"))
    swept(plan, runs, capsys)
    same(contents(runs), contents(whole))


def test_timed_runs_take_turns(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "timed.toml"
    plan.write_text(HEAD + group(tiny_folder, '"autoregressive", "jacobi", "sliding_window"', "timed = true"))
    turns: list[tuple[str, int]] = []

    def noted(checkpoint: Checkpoint, job: Job, places: Sequence[int]) -> Chunk:
        turns.append((job.setting["decoder"][0], places[0]))
        return decode_chunk(checkpoint, job, places)

    monkeypatch.setattr(sweep_module, "decode_chunk", noted)
    swept(plan, tmp_path / "runs", capsys)
    assert turns == [
        *(("a", 0), ("j", 0), ("s", 0)),  # warm-up
        *(("a", 0), ("j", 0), ("s", 0)),
        *(("j", 2), ("s", 2), ("a", 2)),
        *(("s", 4), ("a", 4), ("j", 4)),
    ]
    assert {entry["group"] for entry in read_runs(tmp_path / "runs").entries} == {"timed/g"}


def test_one_sweep_at_a_time(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Work(folder=tmp_path).alone():
        assert main(["sweep", str(plan), "--runs", str(tmp_path)]) == 2
    assert "another sweep is writing to" in capsys.readouterr().err
