"""The questions of Spec-Bench: the shipped file, its parts, and files that are none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from analysis.benchmarks.questions import (
    CATEGORIES,
    GROUPS,
    MT_BENCH_CATEGORIES,
    QUESTIONS,
    Question,
    fingerprint,
    parts_of,
    read_questions,
)

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / QUESTIONS
LINE = {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."], "reference": ["not read"]}


def test_the_shipped_file_is_the_benchmark() -> None:
    questions = read_questions(SHIPPED)
    assert len(questions) == len({question.number for question in questions}) == 480
    counts = Counter(question.category for question in questions)
    assert counts == {name: 10 if name in MT_BENCH_CATEGORIES else 80 for name in CATEGORIES}
    assert {len(question.turns) for question in questions if question.group == "mt_bench"} == {2}
    assert {len(question.turns) for question in questions if question.group != "mt_bench"} == {1}
    assert questions[0].turns[0].startswith("Compose an engaging travel blog post")


def test_the_parts_are_groups_categories_and_all() -> None:
    parts = parts_of(read_questions(SHIPPED))
    assert list(parts) == [*GROUPS, *MT_BENCH_CATEGORIES, "overall"]
    assert {len(parts[group]) for group in GROUPS} == {80}
    assert (len(parts["coding"]), len(parts["overall"])) == (10, 480)
    assert list(parts_of([Question(number=1, category="qa", turns=("Who?",))])) == ["qa", "overall"]


def test_a_limit_takes_the_first_of_each_category() -> None:
    questions = read_questions(SHIPPED, limit=2)
    assert Counter(question.category for question in questions) == dict.fromkeys(CATEGORIES, 2)
    everything = read_questions(SHIPPED)
    assert [q.number for q in questions if q.category == "rag"] == [
        q.number for q in everything if q.category == "rag"
    ][:2]
    with pytest.raises(ValueError, match="limit must be >= 1, got 0"):
        read_questions(SHIPPED, limit=0)


def test_the_fingerprint_is_of_the_questions() -> None:
    questions = read_questions(SHIPPED, limit=1)
    assert fingerprint(questions) == fingerprint(list(questions)) != fingerprint(questions[1:])
    assert len(fingerprint(questions)) == 16


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "must hold at least one line, got none"),
        (["{"], "line 1 is not JSON"),
        (["[]"], r"line 1 must be an object, got \[\]"),
        ([json.dumps(LINE | {"question_id": "81"})], "line 1: question_id must be a whole number, got '81'"),
        ([json.dumps(LINE | {"category": "poems"})], "line 1: category must be one of writing, .*, got 'poems'"),
        (["", json.dumps(LINE | {"turns": []})], "line 2: turns must have at least 1 entry, got 0"),
        ([json.dumps(LINE), json.dumps(LINE)], "each line needs a number of its own"),
    ],
)
def test_a_file_that_is_none_is_one_sentence(lines: list[str], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=sentence):
        read_questions(path)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing\.jsonl cannot be read"):
        read_questions(tmp_path / "nothing.jsonl")
