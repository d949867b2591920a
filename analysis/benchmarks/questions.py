"""Question sets: what a run is asked, in which order, and whether an answer is right.

A question has a task and a number, by which the rows of a run name it, and one text for each turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from mars.lines import read_lines
from mars.schema import parse
from mars_tasks import SEED_STRIDE, TASKS, Problem, numbered
from mars_tasks.base import MAX_SEED

Text = Annotated[str, Field(min_length=1)]


class Question(NamedTuple):
    """A question, turn by turn."""

    task: str
    number: int
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Held-out problems, so many of each family, the families in turn; another seed takes others."""

    problems: int
    seed: int
    tasks: tuple[str, ...] = tuple(TASKS)

    def __post_init__(self) -> None:
        unknown = [task for task in self.tasks if task not in TASKS]
        if unknown or not self.tasks or len(set(self.tasks)) < len(self.tasks):
            raise ValueError(
                f"tasks must be all or some of {', '.join(TASKS)}, each once, got {', '.join(self.tasks)!r}"
            )
        if not 1 <= self.problems <= SEED_STRIDE:
            raise ValueError(f"problems must be between 1 and {SEED_STRIDE}, got {self.problems}")
        if not 0 <= self.seed < MAX_SEED // SEED_STRIDE:
            raise ValueError(f"seed must be >= 0 and < {MAX_SEED // SEED_STRIDE}, got {self.seed}")

    @property
    def fields(self) -> dict[str, Any]:
        """Families, problems of each, seed."""
        return {"tasks": list(self.tasks), "problems": self.problems, "seed": self.seed}

    def __len__(self) -> int:
        return self.problems * len(self.tasks)

    def question(self, place: int) -> Question:
        """The prompt of a problem."""
        problem = self.problem(place)
        return Question(problem.task, place // len(self.tasks), (problem.prompt,))

    def is_right(self, place: int, text: str) -> bool:
        """What the checker of the family says."""
        problem = self.problem(place)
        return TASKS[problem.task].check(problem, text)

    def problem(self, place: int) -> Problem:
        """The problem in this place."""
        number, family = divmod(place, len(self.tasks))
        return numbered(self.tasks[family], self.seed, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileQuestions:
    """Questions of a file, by their numbers, as task `task`.

    `right` judges the text for a number by `metric`; without them nobody judges. `described` is kept with each run.
    """

    task: str
    turns: dict[int, tuple[str, ...]]
    metric: str | None = None
    right: Callable[[int, str], bool] | None = None
    described: dict[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Any]:
        """The task, and the harness that judges."""
        harness = {**self.described, "metric": self.metric, "apply_chat_template": True}
        judged = {} if self.metric else {"judged": False}
        return {"tasks": [self.task], "problems": len(self), "seed": 0, "harness": harness, **judged}

    def __len__(self) -> int:
        return len(self.turns)

    def question(self, place: int) -> Question:
        """The question in this place of the file."""
        number = list(self.turns)[place]
        return Question(self.task, number, self.turns[number])

    def is_right(self, place: int, text: str) -> bool:
        """What `right` says; False where nobody judges."""
        return self.right is not None and self.right(list(self.turns)[place], text)


QuestionSet = Families | FileQuestions
"""Questions by their place, 0 to len − 1; `fields` are what the setting of a run says of them (docs/runs.md)."""


def read_each(path: Path, limit: int | None, kind: Any, key: str) -> list[Any]:
    """The lines of a JSON Lines file as objects of this kind, each with another value in the field `key`.

    ValueError where the file cannot be read or holds nothing, a line is no such object, or the limit is below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be >= 1, got {limit}")
    found = [parse(kind, text, f"{path}, line {number}") for number, text in read_lines(path)]
    if not found:
        raise ValueError(f"{path} must hold at least one line, got none")
    if len({getattr(each, key) for each in found}) < len(found):
        raise ValueError(f"{path}: each line needs a {key} of its own, and some share one")
    return found


def fingerprint(questions: Sequence[Any]) -> str:
    """16 hex digits: the same for the same questions, wherever their file lies."""
    return hashlib.sha256("\n".join(map(repr, questions)).encode()).hexdigest()[:16]
