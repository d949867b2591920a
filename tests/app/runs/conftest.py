"""A finished run of the scripted checkpoints."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.compare.comparison import Question, compare, finished
from app.runs.run import Run
from app.scheduling import AdmissionQueue, LiveRun
from mars.schema import as_json

TEXTS = {"ar": "So 3 * 18 = 54. 😀\n#### 54", "mars": "So 3 * 18 = 54.\n#### 45"}


@pytest.fixture(scope="session")
def finished_run(make_checkpoint: Callable[..., Any], make_entries: Callable[..., Any]) -> Run:
    """What the page keeps of a comparison."""
    checkpoints = {name: make_checkpoint(name, text) for name, text in TEXTS.items()}
    question, queue = Question(prompt="How many sheep? <b>", threshold=0.9), AdmissionQueue()
    live = LiveRun(queue.join(), 0.9)
    entries = make_entries(checkpoints, question, live, queue)
    for _ in compare(entries, question, live, queue):
        pass
    return finished("a-run", question, [entry.lane for entry in entries])


@pytest.fixture(scope="session")
def text(finished_run: Run) -> str:
    return as_json(finished_run)


@pytest.fixture
def document(text: str) -> Any:
    """Its JSON document, parsed, to be changed."""
    return json.loads(text)
