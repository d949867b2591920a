"""Questions that fit the tiny checkpoint, and lanes on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.benchmarks.lanes import BenchmarkLane, lanes_of, parse_decoders
from analysis.benchmarks.questions import Question
from mars.checkpoint import Checkpoint
from tests.analysis.conftest import model

MODEL = model("tiny", block_size=4)
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


@pytest.fixture
def lanes(tiny: Checkpoint) -> Callable[..., list[BenchmarkLane]]:
    """`lanes("autoregressive,sliding_window@0.5")` on the tiny checkpoint."""

    def of(words: str, max_new_tokens: int = 6) -> list[BenchmarkLane]:
        return lanes_of(parse_decoders(words, 0.95), tiny, MODEL, max_new_tokens)

    return of
