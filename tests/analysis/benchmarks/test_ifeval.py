"""IFEval: the shipped file, checks that say the same each time, figures, a run that goes on, the command."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("lm_eval", reason="requirements-eval.txt is not installed")

from analysis.__main__ import main
from analysis.benchmarks import ifeval as module
from analysis.benchmarks.accuracy import figures
from analysis.benchmarks.ifeval import PROMPTS, TASKS, Checkers, Prompt, instructions, load_checkers, read_prompts
from analysis.runs import read_runs

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / PROMPTS
LINE: dict[str, Any] = {
    "key": 1,
    "prompt": "Write two sentences without commas.",
    "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_sentences"],
    "kwargs": [{}, {"relation": "at least", "num_sentences": 2}],
}
SHORT = ["No commas.", "Tom has 3.", "Say 4!"]


@pytest.fixture(scope="module")
def checkers() -> Checkers:
    """The checks of the harness, or a reason to skip: the splitter's table is a package of its own."""
    try:
        return load_checkers()
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture
def prompt_file(tmp_path: Path) -> Path:
    """Three prompts that fit the tiny checkpoint."""
    path = tmp_path / "prompts.jsonl"
    told = [
        LINE | {"key": key, "prompt": text, "instruction_id_list": [LINE["instruction_id_list"][0]], "kwargs": [{}]}
        for key, text in enumerate(SHORT)
    ]
    path.write_text("\n".join(map(json.dumps, told)) + "\n")
    return path


def test_the_shipped_file_is_the_benchmark() -> None:
    prompts = read_prompts(SHIPPED)
    assert (len(prompts), sum(len(prompt.instructions) for prompt in prompts)) == (541, 834)
    assert len({name for prompt in prompts for name in prompt.instructions}) == 25
    assert prompts[0].key == 1000
    assert prompts[0].arguments[1] == {"num_highlights": 3}
    assert read_prompts(SHIPPED, limit=3) == prompts[:3]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"key": "1"}, "line 1: key must be a whole number, got '1'"),
        ({"prompt": ""}, "line 1: prompt must have at least 1 character, got 0"),
        ({"key": -1}, "line 1: key must be at least 0, got -1"),
        ({"instruction_id_list": []}, "line 1: instruction_id_list must have at least 1 entry, got 0"),
        ({"kwargs": [{}]}, "line 1: kwargs must have one object for each instruction, got 1"),
        ({"kwargs": [{}, None]}, r"line 1: kwargs\[1\] must be an object, got None"),
    ],
)
def test_a_file_that_is_none_is_one_sentence(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps(LINE | change))
    with pytest.raises(ValueError, match=sentence):
        read_prompts(path)


def prompt(**change: Any) -> Prompt:
    told = LINE | change
    return Prompt(
        key=told["key"],
        text=told["prompt"],
        instructions=tuple(told["instruction_id_list"]),
        arguments=tuple(told["kwargs"]),
    )


@pytest.mark.parametrize(
    ("text", "followed"),
    [
        ("One is here. Two is there.", (True, True)),
        ("One, here. Two is there.", (False, True)),
        ("Dr. Smith went home", (True, False)),  # one sentence: the splitter knows abbreviations
        (" \n", (False, False)),
    ],
)
def test_the_checks_are_strict(text: str, followed: tuple[bool, ...], checkers: Checkers) -> None:
    assert checkers.followed(prompt(), text) == followed


def test_every_instruction_of_the_file_has_a_check(checkers: Checkers) -> None:
    for each in read_prompts(SHIPPED):
        assert len(checkers.followed(each, "A short answer.")) == len(each.instructions)
    with pytest.raises(ValueError, match="prompt 1: there is no check of the instruction 'sing'"):
        checkers.followed(prompt(instruction_id_list=["sing"], kwargs=[{}]), "La.")


def test_the_harness_draws_the_same_each_time(checkers: Checkers) -> None:
    """The file asks for a letter of "!" or "#" there, and the harness takes any letter instead."""
    drawn = [each for each in read_prompts(SHIPPED) if each.key in (1122, 1129)]
    text = "is it so? " * 9 + "abcdefgh" * 3
    random.seed(5)
    state = random.getstate()
    first = [checkers.followed(each, text) for each in drawn]
    assert random.getstate() == state, "nobody else's random numbers are touched"
    for seed in range(8):
        random.seed(seed)
        assert [checkers.followed(each, text) for each in drawn] == first


def test_without_the_harness_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -r requirements-eval\.txt"):
        load_checkers()


def test_instructions_of_a_prompt_are_no_independent_trials() -> None:
    """Forty prompts with two instructions each, followed both or not at all: as sure as forty, not as eighty."""
    prompts = [prompt(key=key) for key in range(40)]
    rows = pd.DataFrame({"number": range(40), "text": ["yes" if key < 20 else "no" for key in range(40)]})
    share = instructions(rows, prompts, lambda _, text: (text == "yes",) * 2)
    assert share.value == 0.5
    assert share.high - share.low == pytest.approx(2 * 1.96 * (0.25 / 40) ** 0.5, rel=0.1)


def test_figures_are_paired_with_those_of_ar() -> None:
    rows = pd.DataFrame(
        {"task": "x", "number": range(40), "correct": [key < 20 for key in range(40)], "tokens": 10, "passes": 5}
    ).assign(seconds=0.5)
    better = figures("x", rows.assign(correct=[key < 24 for key in range(40)]), rows)
    assert (better.right, better.n, better.accuracy.value) == (24, 40, 0.6)
    assert better.points is not None
    assert better.points.value == pytest.approx(10)
    assert better.points.low < better.points.value < better.points.high
    assert (better.tokens_per_forward.value, better.tokens_per_second.value) == (2, 20)
    assert figures("AR", rows, None).points is None


@pytest.fixture
def words(tiny_folder: Path, prompt_file: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """The words of the command, on the tiny checkpoint."""

    def of(*more: str) -> list[str]:
        given = ["--checkpoint", str(tiny_folder), "--runs", str(tmp_path / "runs")]
        given += ["--task", "own", "--prompts", str(prompt_file)]
        return ["ifeval", *given, "--max-new-tokens", "8", "--batch-size", "2", "--device", "cpu", *more]

    return of


def test_the_command(
    words: Callable[..., list[str]], tmp_path: Path, checkers: Checkers, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "--decoders sliding_window@0.05,autoregressive,self_speculative/linear --json".split()
    assert main(words(*command)) == 0
    first = capsys.readouterr().out
    found = json.loads(first.splitlines()[-1])
    labels = ["autoregressive", "sliding_window@0.05", "self_speculative/linear"]
    assert [each["label"] for each in found["results"]] == labels
    assert [each["points"] is None for each in found["results"]] == [True, False, False]
    assert found["results"][2]["points"]["value"] == 0
    assert f"Checked by {checkers.by}." in first
    store = read_runs(tmp_path / "runs")
    assert store.problems == []
    entries = {entry["id"]: entry for entry in store.entries}
    exact = entries[found["ids"][2]]
    assert (exact["tasks"], exact["problems"], exact["timed"]) == (["own"], 3, False)
    assert exact["harness"]["checked_by"] == checkers.by
    assert exact["training"] == {"stage": "mars", "block_size": 4, "sft_loss": True}
    rows = store.rows(exact["id"])
    asked_for = prompt(instruction_id_list=["punctuation:no_comma"], kwargs=[{}])
    assert [(right,) for right in rows["correct"]] == [checkers.followed(asked_for, text) for text in rows["text"]]
    assert main(words(*command)) == 0
    again = capsys.readouterr().out
    assert json.loads(again.splitlines()[-1])["results"] == found["results"]
    assert again.count(f"{tmp_path / 'runs'} had ") == 3, "what the store has is not run again"


def test_a_task_without_prompts_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ifeval", "--checkpoint", "x", "--task", "own"]) == 2
    assert "task must be one of ifeval, verifiable without --prompts, got 'own'" in capsys.readouterr().err
    assert all((ROOT / path).is_file() for path in TASKS.values())
