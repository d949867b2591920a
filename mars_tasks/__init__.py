"""Synthetic tasks with known answers: the demo's world, and the benchmark."""

from __future__ import annotations

from mars_tasks import instructions, logic, multiple_choice, python_functions, table_lookup, word_problems
from mars_tasks.base import Problem, Split, Task

TASKS: dict[str, Task] = {
    module.TASK.name: module.TASK
    for module in (word_problems, python_functions, instructions, logic, multiple_choice, table_lookup)
}

SEED_STRIDE = 1_000_000

__all__ = ["SEED_STRIDE", "TASKS", "Problem", "Split", "Task", "numbered", "sample"]


def sample(task: str, seed: int, split: Split = "heldout") -> Problem:
    """The problem of this family, seed and split.

    Raises:
        ValueError: the family is unknown, or the seed or split out of range.
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    return TASKS[task].generate(seed, split)


def numbered(task: str, seed: int, number: int) -> Problem:
    """Held-out problem `number` of a family in an evaluation with this seed; other seeds share few, by chance alone."""
    return sample(task, seed * SEED_STRIDE + number)
