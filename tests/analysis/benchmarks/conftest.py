"""Questions in Spec-Bench's form that fit the tiny checkpoint."""

import json
from pathlib import Path

import pytest

from analysis.benchmarks.spec_bench import Question

SMALL = [
    Question(number=81, category="writing", turns=("Tom has 3.", "And 4?")),
    Question(number=121, category="coding", turns=("Add two.", "Return it.")),
    Question(number=201, category="qa", turns=("How many?",)),
    Question(number=202, category="qa", turns=("Who buys?",)),
]


@pytest.fixture
def questions() -> list[Question]:
    """Four questions of three categories; the first two have two turns."""
    return list(SMALL)


@pytest.fixture
def question_file(tmp_path: Path) -> Path:
    """The same as a file."""
    path = tmp_path / "question.jsonl"
    told = [{"question_id": each.number, "category": each.category, "turns": list(each.turns)} for each in SMALL]
    path.write_text("\n".join(map(json.dumps, told)) + "\n")
    return path
