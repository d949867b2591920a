"""Verifiable instructions on other questions: the shipped prompts, and how they are drawn."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("lm_eval", reason="requirements-eval.txt is not installed")

from analysis.__main__ import main
from analysis.benchmarks.ifeval import load_checkers, load_registry, read_prompts
from analysis.benchmarks.verifiable import KINDS, LONGEST, PROMPTS, SHARES, bare, drawn, prompts_of_training
from analysis.commands.draw_prompts import TRAINING

ROOT = Path(__file__).parents[3]
SHARE = {"gsm8k": 60, "oos_eval, in scope": 60}
QUESTIONS = {source: [f"Why is {place} in {source}?" for place in range(80)] for source in SHARE}


@pytest.fixture(scope="module")
def registry() -> ModuleType:
    """IFEval's instructions, or a reason to skip: the splitter's table is a package of its own."""
    try:
        return load_registry()[0]
    except ValueError as error:
        pytest.skip(str(error))


def test_the_shipped_prompts_are_as_they_were_drawn(registry: ModuleType) -> None:
    """In the checkers' own words, each question once, with a check of every instruction."""
    prompts = read_prompts(ROOT / PROMPTS)
    assert len(prompts) == sum(SHARES.values())
    assert {name for each in prompts for name in each.instructions} == set(KINDS)
    checkers = load_checkers()
    questions = set()
    for each in prompts:
        told = [
            registry.INSTRUCTION_DICT[name](name).build_description(**given)
            for name, given in zip(each.instructions, each.arguments, strict=True)
        ]
        question = each.text.removesuffix("\n".join(["", *told]))
        assert question != each.text
        assert len(question) <= LONGEST
        questions.add(bare(question))
        assert len(checkers.followed(each, "A short answer.")) == len(told)
    assert len(questions) == len(prompts)
    sources = [json.loads(line)["source"] for line in (ROOT / PROMPTS).read_text().splitlines()]
    assert {source: sources.count(source) for source in SHARES} == SHARES


def test_the_adapters_have_seen_none_of_the_questions() -> None:
    seen = prompts_of_training(sorted(ROOT.glob(TRAINING)))
    assert len(seen) > 3000
    assert not [each.key for each in read_prompts(ROOT / PROMPTS) if bare(each.text.partition("\n")[0]) in seen]


def test_prompts_are_drawn_the_same_each_time(registry: ModuleType) -> None:
    first = drawn(QUESTIONS, registry, shares=SHARE)
    assert drawn(QUESTIONS, registry, shares=SHARE) == first
    assert drawn(QUESTIONS, registry, shares=SHARE, seed=1) != first
    assert [line["key"] for line in first] == list(range(1, 121))
    assert {len(line["kwargs"]) for line in first} == {1, 2}
    for line in first:
        pair = set(line["instruction_id_list"])
        assert len(pair) == len(line["kwargs"]), "no instruction twice"
        assert not {"change_case:english_capital", "change_case:english_lowercase"} <= pair
        assert not {"combination:repeat_prompt", "punctuation:no_comma"} <= pair


def test_questions_that_were_seen_are_left_out(registry: ModuleType) -> None:
    seen = {bare(each) for each in QUESTIONS["gsm8k"][:20]}
    lines = drawn(QUESTIONS, registry, seen, SHARE)
    assert not [line for line in lines if bare(line["prompt"].partition("\n")[0]) in seen]
    seen.add(bare(QUESTIONS["gsm8k"][20]))
    with pytest.raises(ValueError, match="gsm8k must have 60 questions that fit, got 59"):
        drawn(QUESTIONS, registry, seen, SHARE)


def test_sources_that_are_not_there_are_one_sentence(
    registry: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["draw-prompts", "--data", str(tmp_path), "--output", str(tmp_path / "new.jsonl")]) == 2
    assert f"the sources in {tmp_path} cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "new.jsonl").exists()
