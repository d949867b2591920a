"""The problems of a score board, and the number of them that share a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.compare import problems
from app.scheduling.limits import USUAL_LIMITS, Limits
from mars.schema import between, checked, one_of
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
        settle(self, "count", checked(between(int, FEWEST, MOST), _integer(self.count), "The number of problems"))
        settle(self, "first", checked(between(int, 0, problems.LARGEST_SEED), _integer(self.first), "The first seed"))
        settle(self, "task", checked(one_of((ALL, *TASKS)), self.task, "The family"))
        settle(self, "max_new_tokens", self.limits.check_length(self.max_new_tokens))

    @property
    def problems(self) -> list[Problem]:
        """The problems in order. Seeds that would be too large begin again at 0."""
        tasks = tuple(TASKS) if self.task == ALL else (self.task,)
        return [
            sample(tasks[number % len(tasks)], (self.first + number // len(tasks)) % (problems.LARGEST_SEED + 1))
            for number in range(self.count)
        ]


def batches(problems: Sequence[Problem]) -> Iterator[dict[int, Problem]]:
    """The problems that share forward passes, by their number."""
    for first in range(0, len(problems), BATCH):
        yield dict(enumerate(problems[first : first + BATCH], first))


def _integer(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
