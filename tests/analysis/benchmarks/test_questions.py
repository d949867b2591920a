"""What is asked: problems of the families, and files of questions, of which some are none."""

import json
from collections import Counter
from pathlib import Path

import pytest

from analysis.benchmarks.questions import Families, fingerprint
from analysis.benchmarks.spec_bench import CATEGORIES, MT_BENCH_CATEGORIES, QUESTIONS, read_questions
from mars_tasks import SEED_STRIDE, TASKS, sample

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


def test_lines_end_at_newlines_alone(tmp_path: Path) -> None:
    """Not at U+2028, U+2029 or NEL, and a byte-order mark is no part of the first line."""
    path = tmp_path / "questions.jsonl"
    text = "One\u2028two\u2029three\x85four"
    lines = [json.dumps(LINE | {"question_id": n, "turns": [text]}, ensure_ascii=False) for n in (1, 2)]
    path.write_text("\ufeff" + "\r\n\n".join(lines), encoding="utf-8")
    assert [question.turns for question in read_questions(path)] == [(text,), (text,)]


def test_families_take_turns_with_their_own_seeds() -> None:
    problems = Families(problems=2, seed=3)
    asked = [problems.question(place) for place in range(len(problems))]
    assert [(task, number) for task, number, _ in asked] == [(task, number) for number in range(2) for task in TASKS]
    assert [turns for _, _, turns in asked] == [
        (sample(task, 3 * SEED_STRIDE + number).prompt,) for number in range(2) for task in TASKS
    ]
    for place in range(len(problems)):
        assert problems.is_right(place, problems.problem(place).solution)
        assert not problems.is_right(place, "no answer")
