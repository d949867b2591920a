"""Spec-Bench: figures as the benchmark defines them, and the command."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.benchmarks.spec_bench import Question, figures
from analysis.figures.points import measure
from analysis.runs import read_runs


def rows(*found: tuple[int, int, int, float, str]) -> pd.DataFrame:
    """Number, tokens, passes, seconds and text of each question."""
    return pd.DataFrame(found, columns=["number", "tokens", "passes", "seconds", "text"])


def test_figures_are_those_of_the_benchmark(questions: list[Question]) -> None:
    baseline = rows((201, 4, 4, 2.0, "a"), (202, 8, 8, 8.0, "b"))  # 2 and 1 tokens per second
    faster = rows((201, 4, 2, 1.0, "a"), (202, 6, 2, 1.0, "c"))  # 4 and 6
    overall = figures(faster, baseline, questions[2:])[-1]
    assert (overall.part, overall.n, overall.same) == ("overall", 2, 1)
    assert overall.accepted.value == 10 / 4  # of all passes, not the mean over questions
    assert overall.tokens_per_second.value == 5
    assert overall.speed_up is not None
    assert overall.speed_up.value == pytest.approx(5 / 1.5)  # ratio of means, not mean of ratios
    assert (overall.speed_up.low, overall.speed_up.high) == pytest.approx((2.0, 6.0))
    alone = figures(baseline, None, questions[2:])[-1]
    assert (alone.speed_up, alone.accepted.value) == (None, 1)


def test_both_of_a_ratio_are_resampled_alike(questions: list[Question]) -> None:
    same = rows(*((each.number, each.number, 3, each.number**0.5, "x") for each in questions))
    for found in figures(same, same.copy(), questions):
        assert found.speed_up is not None
        assert (found.speed_up.low, found.speed_up.value, found.speed_up.high) == (1, 1, 1)
        assert found.same == found.n


@pytest.fixture
def words(tiny_folder: Path, question_file: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """The words of the command, on the tiny checkpoint."""

    def of(*more: str) -> list[str]:
        given = ["--checkpoint", str(tiny_folder), "--questions", str(question_file), "--runs", str(tmp_path / "runs")]
        return ["spec-bench", *given, *"--task own --max-new-tokens 6 --device cpu".split(), *more]

    return of


def test_the_command(words: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("--decoders", "self_speculative/linear,sliding_window@0.05", "--json")) == 0
    output = capsys.readouterr().out
    found = json.loads(output.splitlines()[-1])
    labels = "autoregressive self_speculative/linear sliding_window@0.05".split()
    assert [lane["decoder"] for lane in found["results"]] == labels
    exact = found["results"][1]
    assert exact["parts"]["overall"]["same"] == 4
    assert list(exact["parts"]) == ["mt_bench", "qa", "writing", "coding", "overall"]
    store = read_runs(tmp_path / "runs")
    assert store.problems == []
    assert sorted(entry["id"] for entry in store.entries) == sorted(found["ids"])
    assert {entry["group"] for entry in store.entries} == {store.entries[0]["group"]}
    assert all(entry["timed"] and entry["judged"] is False for entry in store.entries)
    rows = store.rows(found["ids"][1])
    assert list(rows["number"]) == [81, 121, 201, 202]
    overall = exact["parts"]["overall"]
    assert overall["accepted"]["value"] == pytest.approx(rows["tokens"].sum() / rows["passes"].sum())
    assert "turn" not in rows
    assert not list((tmp_path / "runs" / "work").glob("*.jsonl"))


def test_nobody_judged_the_answers(words: Callable[..., list[str]], tmp_path: Path) -> None:
    assert main(words("--decoders", "sliding_window@0.05", "--limit", "1")) == 0
    assert main([word for word in words() if word not in ("--task", "own")]) == 2, "they are not Spec-Bench's"
    store = read_runs(tmp_path / "runs")
    table = measure(store)
    assert table["accuracy"].isna().all()
    assert table["correct"].isna().all()
    assert table["loss"].isna().all()
    assert table["speedup"].notna().all()
    assert store.table()["accuracy"].isna().all()
