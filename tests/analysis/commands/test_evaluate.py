"""`python -m analysis evaluate` on a tiny checkpoint: paired with AR, kept as runs, whatever the batch size."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.runs import read_runs
from mars_tasks import TASKS

SMALL = ["--problems", "2", "--seed", "3", "--max-new-tokens", "6", "--device", "cpu", "--dtype", "float32"]


def words(folder: Path, tmp_path: Path, *more: str) -> list[str]:
    return ["evaluate", "--checkpoint", str(folder), "--runs", str(tmp_path / "runs"), *SMALL, *more]


def evaluated(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> dict:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_decoders_are_paired_with_ar(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decoders = "sliding_window@0.05,sliding_window@none,autoregressive"
    found = evaluated(capsys, words(tiny_folder, tmp_path, "--decoders", decoders, "--batch-size", "5"))
    assert [each["label"] for each in found["results"]] == [
        "autoregressive",
        "sliding_window@0.05",
        "sliding_window@none",
    ]
    plain, window, one_token = found["results"]
    assert (plain["points"], one_token["points"]["value"]) == (None, 0)
    assert window["tokens_per_forward"]["value"] > 1
    assert (plain["n"], list(plain["by_task"])) == (12, sorted(TASKS))
    assert {"hardware", "date", "commit", "command"} <= set(found)
    store = read_runs(tmp_path / "runs")
    assert sorted(found["ids"]) == [entry["id"] for entry in store.entries]
    again = evaluated(capsys, words(tiny_folder, tmp_path, "--decoders", decoders, "--batch-size", "5"))
    assert again["results"] == found["results"], "the runs are there"


def test_the_runs_are_those_of_a_sweep(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluated(capsys, words(tiny_folder, tmp_path, "--decoders", "sliding_window@0.5"))
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'schema = 1\nproblems = 2\nseed = 3\nmax_new_tokens = 6\ndtype = "float32"\ndevice = "cpu"\n[[group]]\n'
        f'name = "g"\ncheckpoints = ["{tiny_folder}"]\ndecoders = ["sliding_window"]\nthresholds = 0.5\n'
    )
    assert main(["sweep", str(plan), "--runs", str(tmp_path / "runs"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["skipped"] == found["ids"]


def test_ar_may_be_another_checkpoint(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_folder, base)
    (base / "mars.json").unlink()
    evaluated(capsys, words(tiny_folder, tmp_path, "--decoders", "sliding_window", "--baseline", str(base)))
    models = {entry["decoder"]: entry["model"]["name"] for entry in read_runs(tmp_path / "runs").entries}
    assert models == {"autoregressive": "base", "sliding_window": "tiny-mars"}


def test_timed_lanes_take_turns(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--decoders", "autoregressive,jacobi,jacobi/k4", "--timed", "--batch-size", "1"]
    evaluated(capsys, words(tiny_folder, tmp_path, *more))
    store = read_runs(tmp_path / "runs")
    assert len({entry["group"] for entry in store.entries}) == 1
    assert all(len(set(store.rows(entry["id"])["turn"])) >= 4 for entry in store.entries)


def test_a_draft_is_reached(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--decoder", "speculative/k3", "--draft", str(tiny_folder), "--tasks", "logic"]
    assert evaluated(capsys, words(tiny_folder, tmp_path, *more))["results"][0]["n"] == 2
