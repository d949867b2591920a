"""Which problems a score board asks, and how many of them share a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app import problems
from app.limits import USUAL_LIMITS, Limits
from app.runs.checks import choice, whole
from mars.tasks import TASKS, Problem, sample

FEWEST, MOST, USUAL = 5, 50, 20
BATCH = 5
ALL = "all"
"""In place of a family: the families take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`count` problems of one family or of all, with the seeds from `first` on, answered within `max_new_tokens`."""

    count: int = USUAL
    task: str = ALL
    first: int
    max_new_tokens: int = 192
    limits: Limits = USUAL_LIMITS

    def __post_init__(self) -> None:
        """Raise ValueError with a sentence for the person."""
        settle = object.__setattr__
        settle(self, "count", whole(_integer(self.count), "The number of problems", FEWEST, MOST))
        settle(self, "first", whole(_integer(self.first), "The first seed", 0, problems.LARGEST_SEED))
        settle(self, "task", choice(self.task, "The family", (ALL, *TASKS)))
        settle(self, "max_new_tokens", self.limits.check_length(self.max_new_tokens))

    @property
    def problems(self) -> list[Problem]:
        """What is asked, in order. Seeds that would be too large begin again at 0."""
        tasks = tuple(TASKS) if self.task == ALL else (self.task,)
        return [
            sample(tasks[number % len(tasks)], (self.first + number // len(tasks)) % (problems.LARGEST_SEED + 1))
            for number in range(self.count)
        ]


def batches(asked: Sequence[Problem]) -> Iterator[dict[int, Problem]]:
    """The problems that share forward passes, by their number."""
    for first in range(0, len(asked), BATCH):
        yield dict(enumerate(asked[first : first + BATCH], first))


def _integer(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
