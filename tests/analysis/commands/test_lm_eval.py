"""`python -m analysis lm-eval`: what it prints and stores, that it goes on after a kill, and what it refuses."""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lm_eval", reason="requirements-eval.txt is not installed")

import datasets
from lm_eval.tasks import TaskManager

from analysis.__main__ import main
from analysis.commands import lm_eval as command
from analysis.harness.journal import Journal
from analysis.runs import read_runs
from mars.config import DecodingSettings
from tests.forked import LIMIT, forked

ROOT = Path(__file__).parents[3]
OPTIONS = "--decoder sliding_window --threshold 0.9 --include-path tests/data/lm_eval --device cpu --batch-size 2"
pytestmark = pytest.mark.usefixtures("one_thread", "local_data")


@pytest.fixture
def words(tiny_folder: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """The words of a command that puts its runs into the folder `runs`."""

    def of(*more: str, tasks: str = "local_sums", runs: str = "runs") -> list[str]:
        given = ["--checkpoint", str(tiny_folder), *OPTIONS.split(), "--tasks", tasks, "--runs", str(tmp_path / runs)]
        return ["lm-eval", *given, *more]

    return of


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_task_becomes_a_run(
    words: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words("--limit", "4", "--json", "--metric", "exact_match,flexible-extract")) == 0
    output = capsys.readouterr().out
    [found] = json.loads(output.splitlines()[-1])["tasks"]
    store = read_runs(tmp_path / "runs")
    assert store.problems == []
    [entry] = store.entries
    rows = store.rows(entry["id"])
    assert found["run"] == entry["id"]
    assert entry["id"] in output.splitlines()[-3]
    assert (entry["tasks"], entry["problems"], entry["batch_size"], entry["timed"]) == (["local_sums"], 4, 2, False)
    assert (entry["model"]["name"], entry["model"]["stage"], entry["decoder"]) == (
        "tiny-mars",
        "mars",
        "sliding_window",
    )
    assert (entry["settings"]["threshold"], entry["settings"]["max_new_tokens"]) == (0.9, 24)
    harness = entry["harness"]
    assert (harness["metric"], harness["filter"]) == ("exact_match", "flexible-extract")
    assert (harness["num_fewshot"], harness["limit"], harness["until"][:3]) == (2, 4, ["Q:", "\n\n", ". "])
    assert list(rows["number"]) == [0, 1, 2, 3]
    assert (found["n"], found["correct"], found["score"]) == (4, rows["correct"].sum(), rows["correct"].mean())
    assert found["tokens_per_forward"] == rows["tokens"].sum() / rows["passes"].sum()
    for row in rows.itertuples():
        assert sum(row.acceptance_lengths) == row.passes
        assert sum((place + 1) * times for place, times in enumerate(row.acceptance_lengths)) == row.tokens <= 24
        assert not any(stop in row.text for stop in harness["until"])
    assert list((tmp_path / "runs").glob(".lm-eval*")) == [], "a complete run leaves no journal"


def test_what_the_store_has_is_not_run_again(
    words: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(words("--json")) == 0
    first = told(capsys)["tasks"]
    for task in first:  # the store keeps seconds in single precision
        task["tokens_per_second"] = pytest.approx(task["tokens_per_second"], rel=1e-6)
    with monkeypatch.context() as patch:
        patch.delattr("analysis.harness.model.MarsLM.generate_until")
        assert main(words("--json")) == 0
    again = told(capsys)["tasks"]
    assert again == first
    assert main(words("--json", "--num-fewshot", "1")) == 0
    assert told(capsys)["tasks"][0]["run"] != first[0]["run"], "another question is another run"


def killed_at_four(words: list[str], cache: Path) -> int:
    add = Journal.add

    def add_and_die(journal: Journal, key: str, result: Any) -> None:
        add(journal, key, result)
        if len(journal.results) == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    datasets.config.HF_DATASETS_CACHE = cache
    Journal.add = add_and_die  # type: ignore[method-assign]
    return main(words)


def test_a_killed_run_goes_on(words: Callable[..., list[str]], tmp_path: Path) -> None:
    process = forked(partial(killed_at_four, words(), tmp_path / "cache"), out=tmp_path / "out", err=tmp_path / "err")
    process.join(LIMIT)
    assert process.exitcode == -signal.SIGKILL, (tmp_path / "err").read_text()
    [journal] = (tmp_path / "runs").glob(".lm-eval*")
    kept = [json.loads(line)[1] for line in journal.read_text().splitlines()]
    assert len(kept) == 4
    assert list(read_runs(tmp_path / "runs").entries) == []
    with journal.open("a") as file:
        file.write('["half a li')
    assert main(words()) == 0
    assert main(words(runs="other")) == 0
    [resumed, whole] = [read_runs(tmp_path / name) for name in ("runs", "other")]
    [run] = [entry["id"] for entry in resumed.entries]
    same = ["task", "number", "correct", "tokens", "passes", "finish_reason", "text"]
    assert resumed.rows(run)[same].equals(whole.rows(run)[same])
    seconds = set(resumed.rows(run)["seconds"])
    assert {float(np.float32(result["seconds"])) for result in kept} <= seconds, "they were not measured again"


def test_what_writes_nothing_is_printed_and_not_stored(
    words: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words("--json", tasks="local_colours,local_sums")) == 0
    output = capsys.readouterr().out
    colours, sums = json.loads(output.splitlines()[-1])["tasks"]
    assert (colours["task"], colours["n"], colours["metric"]) == ("local_colours", 4, "acc,none")
    assert colours["score"] == colours["correct"] / 4
    assert colours["tokens_per_forward"] is colours["run"] is None
    assert "local_colours: the model writes no answers, so nothing is stored." in output
    assert [entry["id"] for entry in read_runs(tmp_path / "runs").entries] == [sums["run"]]


def test_options_override_what_a_task_says(
    words: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "--max-new-tokens 5 --temperature 0.7 --top-p 0.8 --sampling-seed 9 --apply-chat-template --limit 1"
    assert main(words(*given.split())) == 0
    [entry] = read_runs(tmp_path / "runs").entries
    settings = DecodingSettings(**entry["settings"])
    assert (settings.max_new_tokens, settings.temperature, settings.top_p, settings.seed) == (5, 0.7, 0.8, 9)
    assert entry["harness"]["apply_chat_template"] is entry["harness"]["fewshot_as_multiturn"] is True
    assert read_runs(tmp_path / "runs").rows(entry["id"])["tokens"].max() <= 5


def test_a_decoder_without_threshold_has_none_stored(words: Callable[..., list[str]], tmp_path: Path) -> None:
    assert main(words("--decoder", "autoregressive", "--limit", "1")) == 0
    [entry] = read_runs(tmp_path / "runs").entries
    assert entry["settings"]["threshold"] is None
    assert "@" not in entry["id"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--tasks no_such_task", "the harness does not know all of the tasks no_such_task"),
        ("--tasks local_sums,local_sums", "each once"),
        ("--limit 0", "limit must be >= 1, got 0"),
        ("--num-fewshot -1", "num_fewshot must be >= 0, got -1"),
        ("--batch-size 0", "batch_size must be >= 1, got 0"),
        ("--include-path no/such/folder", "no/such/folder is not a folder"),
        ("--decoder beam", "decoder must be one of"),
        ("--threshold 7", "threshold must be between 0 and 1"),
        ("--temperature -1", "temperature must be a finite number >= 0"),
        ("--draft somewhere", "--draft is for"),
        ("--metric bleu", "task local_sums has exact_match,strict-match, exact_match,flexible-extract, got 'bleu'"),
        ("--max-new-tokens 400", "task local_sums: max_gen_toks must be < the context length of 384, got 400"),
        (
            "--max-new-tokens 350",
            "task local_sums: 6 of 6 prompts do not fit the context of 384 tokens and answers of 350",
        ),
        ("--tasks broken_data", "the data of task broken_data cannot be had"),
        ("--tasks many_answers", "task many_answers asks for 3 answers to each question"),
    ],
)
def test_bad_input_is_one_sentence(
    given: str,
    message: str,
    words: Callable[..., list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if given in ("--tasks broken_data", "--tasks many_answers"):
        write_tasks(tmp_path)
        given += f" --include-path {tmp_path}"
    if "no_such_task" in given:  # thousands of files, which change nothing here
        monkeypatch.setattr("analysis.harness.evaluation.TaskManager", partial(TaskManager, include_defaults=False))
    assert main(words(*given.split())) == 2
    output = capsys.readouterr()
    error = output.err
    assert output.out == ""
    assert message in error
    assert "Traceback" not in error
    assert error.splitlines()[-1].startswith("analysis lm-eval: ")


def write_tasks(folder: Path) -> None:
    text = (ROOT / "tests" / "data" / "lm_eval" / "local_sums.yaml").read_text()
    broken = text.replace("local_sums", "broken_data").replace("sums.jsonl", "nothing.jsonl")
    (folder / "broken_data.yaml").write_text(broken)
    (folder / "many_answers.yaml").write_text(text.replace("local_sums", "many_answers") + "repeats: 3\n")


def test_without_the_harness_it_says_what_to_install(
    words: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert main(words()) == 2
    assert "pip install -r requirements-eval.txt" in capsys.readouterr().err


def test_help_says_what_the_tasks_decide() -> None:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    assert " ".join(parser.format_help().split()).count("(default: as the task says)") == 4
