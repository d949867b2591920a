"""Spec-Bench (Xia et al., arXiv 2401.07851): its questions and its figures, as its evaluation/speed.py defines them.

MT-bench's eight categories, whose questions have two turns, form one group; each of the other five is its own group.
Mean accepted tokens are the new tokens of all answers over their decode passes; the speed is the mean over questions of
tokens per second, prefill included, and the speed-up the ratio of two such means. Intervals resample the questions,
group by group, in the same way for both sides of a ratio; a group with a single question adds nothing to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import Field

from analysis.benchmarks.questions import FileQuestions, Text, fingerprint, read_each
from analysis.stats.intervals import Interval
from analysis.stats.pairs import speed_up_of_means
from analysis.stats.resampling import percentiles, ratio_of_sums, sums
from analysis.stats.strata import FILES, MT_BENCH, MT_BENCH_CATEGORIES, group_of, grouped
from analysis.text_table import Columns
from mars.schema import Open, must_be

TASK = "spec_bench"
QUESTIONS = FILES[TASK]
OTHERS = ("translation", "summarization", "qa", "math_reasoning", "rag")
CATEGORIES = (*MT_BENCH_CATEGORIES, *OTHERS)
GROUPS = (MT_BENCH, *OTHERS)
OVERALL = "overall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Open):
    """A line of the file; `number` is its question_id."""

    number: Annotated[int, Field(ge=0, alias="question_id")]
    category: Annotated[str, must_be(f"one of {', '.join(CATEGORIES)}", CATEGORIES.__contains__)]
    turns: Annotated[tuple[Text, ...], Field(min_length=1)]

    @property
    def group(self) -> str:
        """The part of Spec-Bench's report that it belongs to."""
        return group_of(self.category)


def read_questions(path: Path = QUESTIONS, limit: int | None = None) -> list[Question]:
    """The questions of a file, in its order; `limit` keeps the first ones of each category.

    ValueError, one sentence that names the file, the line and the field at fault.
    """
    taken: dict[str, int] = {}
    kept = []
    for question in read_each(path, limit, Question, "number"):
        taken[question.category] = taken.get(question.category, 0) + 1
        if limit is None or taken[question.category] <= limit:
            kept.append(question)
    return kept


def question_set(questions: Sequence[Question], limit: int | None, task: str = TASK) -> FileQuestions:
    """These as what a run is asked; nobody judges the answers."""
    return FileQuestions(
        task=task,
        turns={question.number: question.turns for question in questions},
        described={"task_hash": fingerprint(questions), "limit": limit, "checked_by": None},
    )


def parts_of(questions: Sequence[Question]) -> dict[str, set[int]]:
    """The numbers of the questions by part of the report: the groups, MT-bench's categories, all; no empty parts."""
    parts = {group: {each.number for each in questions if each.group == group} for group in GROUPS}
    parts |= {name: {each.number for each in questions if each.category == name} for name in MT_BENCH_CATEGORIES}
    return {name: part for name, part in {**parts, OVERALL: {each.number for each in questions}}.items() if part}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A run on n questions of a part; the baseline has no speed-up. `same` counts texts equal to the baseline's."""

    part: str
    n: int
    accepted: Interval
    tokens_per_second: Interval
    speed_up: Interval | None
    same: int


def figures(rows: pd.DataFrame, baseline: pd.DataFrame | None, questions: Sequence[Question]) -> list[Figures]:
    """The figures of a run by part, in order; the baseline's own rows have no speed-up."""
    found = []
    baseline = None if baseline is rows else baseline
    groups = {question.number: question.group for question in questions}
    rows = grouped(rows, groups)
    for name, numbers in parts_of(questions).items():
        ours = rows[rows["number"].isin(numbers)].reset_index(drop=True)
        ours = ours.assign(speed=ours["tokens"] / ours["seconds"])
        theirs = None
        if baseline is not None:
            theirs = grouped(baseline[baseline["number"].isin(numbers)], groups)
        (total,), drawn = sums(ours, ours, ["speed"])
        found.append(
            Figures(
                part=name,
                n=len(ours),
                accepted=ratio_of_sums(ours, "tokens", "passes"),
                tokens_per_second=percentiles(total / len(ours), drawn[:, 0] / len(ours)),
                speed_up=None if theirs is None else speed_up_of_means(ours, theirs),
                same=len(ours) if theirs is None else int((ours["text"] == theirs["text"]).sum()),
            )
        )
    return found


COLUMNS: Columns[Figures] = (
    ("part", lambda each: each.part),
    ("n", lambda each: str(each.n)),
    ("tokens/pass", lambda each: f"{each.accepted.value:.2f}"),
    ("95 % interval", lambda each: f"{each.accepted.low:.2f} to {each.accepted.high:.2f}"),
    ("tok/s", lambda each: f"{each.tokens_per_second.value:.1f}"),
    ("speed-up", lambda each: f"{each.speed_up.value:.2f}×" if each.speed_up else "–"),
    ("95 % interval", lambda each: f"{each.speed_up.low:.2f} to {each.speed_up.high:.2f}" if each.speed_up else "–"),
    ("same text", lambda each: f"{each.same}/{each.n}"),
)
