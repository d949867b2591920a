"""Spec-Bench: figures as the benchmark defines them, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.benchmarks.lanes import described
from analysis.benchmarks.questions import Question
from analysis.benchmarks.spec_bench import Difference, difference, report
from analysis.decoding.answers import Answer
from analysis.figures.points import measure
from analysis.runs import read_runs
from mars.checkpoint import Checkpoint

MODEL = {"name": "a", "fingerprint": "0" * 16, "parameters": 1, "stage": "mars", "block_size": 4}


def turn(ids: list[int], passes: int, seconds: float) -> Answer:
    return Answer(
        ids=tuple(ids),
        text=str(ids),
        passes=passes,
        seconds=seconds,
        model_seconds=seconds,
        finish_reason="stop",
        acceptance_lengths=(passes,),
    )


def test_the_figures_are_those_that_the_benchmark_defines(questions: list[Question]) -> None:
    asked = questions[2:]
    baseline = {201: (turn([1, 2, 3, 4], 4, 2.0),), 202: (turn([1] * 8, 8, 8.0),)}  # 2 and 1 tokens per second
    faster = {201: (turn([1, 2, 3, 4], 2, 1.0),), 202: (turn([1] * 6, 2, 1.0),)}  # 4 and 6
    theirs, ours = report({"AR": baseline, "fast": faster}, asked)
    overall = ours.figures[-1]
    assert (overall.part, overall.n, overall.same) == ("overall", 2, 1)
    assert overall.accepted.value == 10 / 4  # of all passes, not the mean over questions
    assert overall.tokens_per_second.value == 5
    assert overall.speed_up is not None
    assert overall.speed_up.value == pytest.approx(5 / 1.5)  # ratio of means, not mean of ratios
    assert (overall.speed_up.low, overall.speed_up.high) == pytest.approx((2.0, 6.0))
    assert theirs.figures[-1].speed_up is None
    assert (theirs.figures[-1].accepted.value, theirs.differences) == (1, ())
    assert ours.differences == (Difference(question=202, turn=0, token=6),)


def test_both_of_a_ratio_are_resampled_alike(questions: list[Question]) -> None:
    answers = {each.number: (turn([1] * each.number, 3, each.number**0.5),) for each in questions}
    _, same = report({"AR": answers, "same": answers}, questions)
    for figures in same.figures:
        assert figures.speed_up is not None
        assert (figures.speed_up.low, figures.speed_up.value, figures.speed_up.high) == (1, 1, 1)
        assert figures.same == figures.n


@pytest.mark.parametrize(
    ("ours", "where"),
    [
        ([[1, 2, 3], [4, 5]], None),
        ([[1, 9, 3], [4, 5]], (0, 1)),
        ([[1, 2], [4, 5]], (0, 2)),
        ([[1, 2, 3], [4, 5, 6]], (1, 2)),
    ],
)
def test_the_first_difference_is_a_turn_and_a_token(ours: list[list[int]], where: tuple[int, int] | None) -> None:
    theirs = [[1, 2, 3], [4, 5]]
    found = difference(7, *(tuple(turn(ids, 1, 1.0) for ids in texts) for texts in (ours, theirs)))
    assert found == (None if where is None else Difference(question=7, turn=where[0], token=where[1]))


@pytest.fixture
def words(tiny_folder: Path, question_file: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """The words of the command, on the tiny checkpoint."""

    def of(*more: str) -> list[str]:
        given = ["--checkpoint", str(tiny_folder), "--questions", str(question_file), "--runs", str(tmp_path / "runs")]
        return ["spec-bench", *given, "--max-new-tokens", "6", "--device", "cpu", *more]

    return of


def test_the_command(words: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("--decoders", "self_speculative/linear,sliding_window@0.05", "--json")) == 0
    output = capsys.readouterr().out
    found = json.loads(output.splitlines()[-1])
    assert [lane["decoder"] for lane in found["results"]] == [
        "autoregressive", "self_speculative/linear", "sliding_window@0.05"
    ]  # fmt: skip
    exact = found["results"][1]
    assert (exact["parts"]["overall"]["same"], exact["differences"]) == (4, [])
    assert list(exact["parts"]) == ["mt_bench", "qa", "writing", "coding", "overall"]
    assert "autoregressive decodes with tiny-mars." in output
    store = read_runs(tmp_path / "runs")
    assert store.problems == []
    assert sorted(entry["id"] for entry in store.entries) == sorted(found["ids"])
    assert {entry["group"] for entry in store.entries} == {store.entries[0]["group"]}
    assert all(entry["timed"] and entry["judged"] is False for entry in store.entries)
    rows = store.rows(found["ids"][1])
    assert list(rows["number"]) == [81, 121, 201, 202]
    overall = exact["parts"]["overall"]
    assert overall["accepted"]["value"] == pytest.approx(rows["tokens"].sum() / rows["passes"].sum())
    assert list((tmp_path / "runs").glob(".spec_bench*")) == [], "a complete run leaves no journal"


def test_nobody_judged_the_answers(words: Callable[..., list[str]], tmp_path: Path) -> None:
    assert main(words("--decoders", "sliding_window@0.05", "--limit", "1")) == 0
    store = read_runs(tmp_path / "runs")
    table = measure(store)
    assert table["accuracy"].isna().all()
    assert table["correct"].isna().all()
    assert table["loss"].isna().all()
    assert table["speedup"].notna().all()
    assert store.table()["accuracy"].isna().all()


def test_the_baseline_may_be_another_checkpoint(
    words: Callable[..., list[str]], tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "base"
    other.mkdir()
    for file in tiny_folder.iterdir():
        if file.name != "mars.json":
            (other / file.name).write_bytes(file.read_bytes())
    assert main(words("--decoders", "autoregressive,sliding_window@0.05", "--baseline", str(other))) == 0
    assert "autoregressive decodes with base." in capsys.readouterr().out
    models = {entry["decoder"]: entry["model"]["name"] for entry in read_runs(tmp_path / "runs").entries}
    assert models == {"autoregressive": "base", "sliding_window": "tiny-mars"}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("--decoders beam", "decoders must be some of"),
        ("--decoders generate", "decoders must be decoders of one checkpoint, got generate"),
        ("--decoders speculative", "decoders must be decoders of one checkpoint, got speculative"),
        ("--batch 0", "batch must be >= 1, got 0"),
        ("--limit 0", "limit must be >= 1, got 0"),
        ("--threads 0", "threads must be >= 1, got 0"),
        ("--max-new-tokens 0", "max_new_tokens must be >= 1, got 0"),
        ("--max-new-tokens 180", "question 81 (writing) does not fit"),
        ("--questions no/such.jsonl", "no/such.jsonl cannot be read"),
        ("--baseline no/such/folder", "no/such/folder"),
    ],
)
def test_bad_input_is_one_sentence(
    more: str, sentence: str, words: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(*more.split())) == 2
    output = capsys.readouterr()
    assert output.err.splitlines()[-1].startswith("analysis spec-bench: ")
    assert sentence in output.err.splitlines()[-1]
    assert output.out == ""


def test_an_adapter_counts_as_mars(tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.benchmarks.lanes.describe", lambda source: MODEL | {"stage": "adapter"})
    assert described("folder", tiny) == MODEL


def test_a_source_that_is_no_plain_folder_is_described_by_its_weights(tiny: Checkpoint, tiny_folder: Path) -> None:
    by_files, by_weights = described(str(tiny_folder), tiny), described("smollm2-135m+adapter", tiny)
    assert {key: by_weights[key] for key in ("name", "stage", "block_size")} == {
        key: by_files[key] for key in ("name", "stage", "block_size")
    }
    assert by_weights == described("another+name", tiny)
    other = replace(tiny, record={"stage": "adapter"})
    assert described("x+y", other)["fingerprint"] != by_weights["fingerprint"]
    assert described("x+y", other)["stage"] == "mars"
