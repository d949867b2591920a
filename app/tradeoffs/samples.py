"""The texts of a run: problems with their prompts, the stored text, and whether it was right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.figures.words import task_words
from analysis.runs import RunStore
from analysis.runs.schema import is_judged
from app.compare import problems
from mars.schema import StrictDict
from mars.tasks import TASKS, Problem, numbered

PAGE = 6
NO_SUCH_RUN = "There is no such run any more: reload the runs."
Entry = Mapping[str, Any]


class Sample(StrictDict):
    """One problem of a run and the text written; `right` is None if nobody judged it."""

    task: str
    family: str
    number: int
    prompt: str
    answer: str
    text: str
    right: bool | None
    tokens: int
    passes: int
    cut: bool


class Samples(StrictDict):
    """A few of the `total` problems that match the question."""

    total: int
    samples: list[Sample]


def entry_of(runs: RunStore, run: str) -> Entry:
    """The entry of the run with this id.

    Raises:
        ValueError: there is no such run.
    """
    found = next((entry for entry in runs.entries if entry["id"] == run), None)
    if found is None:
        raise ValueError(NO_SUCH_RUN)
    return found


def problem_of(entry: Entry, task: str, number: int) -> Problem | None:
    """The problem itself; None for a benchmark or an unknown family, whose problems this app cannot make."""
    if entry.get("harness") or task not in TASKS:
        return None
    return numbered(task, entry["seed"], number)


def samples(runs: RunStore, entry: Entry, *, task: str = "", right: bool | None = None, first: int = 0) -> Samples:
    """A few problems from number `first` on, the families in turn; optionally of one family, or only right or wrong.

    `total` is how many match; where nobody judged, `right` is None and all are shown.
    """
    rows = runs.rows(entry["id"])
    if task:
        rows = rows[rows["task"] == task]
    if right is not None and is_judged(entry):
        rows = rows[rows["correct"] == right]
    order = rows.assign(turn=rows.groupby("task").cumcount(), place=rows["task"].map(list(entry["tasks"]).index))
    shown = order.sort_values(["turn", "place"]).iloc[first : first + PAGE]
    return {"total": len(rows), "samples": [_shown(entry, row) for row in shown.to_dict("records")]}


def row_of(runs: RunStore, entry: Entry, task: str, number: int) -> dict[str, Any]:
    """The row of one problem.

    Raises:
        ValueError: the run has no such problem.
    """
    rows: pd.DataFrame = runs.rows(entry["id"])
    found = rows[(rows["task"] == task) & (rows["number"] == number)]
    if found.empty:
        raise ValueError("The run has no such problem.")
    return dict(found.iloc[0])


def _shown(entry: Entry, row: Mapping[str, Any]) -> Sample:
    problem = problem_of(entry, row["task"], row["number"])
    return {
        "task": row["task"],
        "family": task_words(row["task"]),
        "number": int(row["number"]),
        "prompt": problem.prompt if problem else "",
        "answer": problems.known_answer(problem) if problem else "",
        "text": row["text"],
        "right": bool(row["correct"]) if is_judged(entry) else None,
        "tokens": int(row["tokens"]),
        "passes": int(row["passes"]),
        "cut": row["finish_reason"] == "length",
    }
