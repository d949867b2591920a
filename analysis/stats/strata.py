"""The categories of questions as strata of their resamples, as Spec-Bench has them: MT-bench's eight are one group."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pandas as pd

from mars.lines import read_objects

MT_BENCH = "mt_bench"
MT_BENCH_CATEGORIES = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
FILES = {
    "spec_bench": Path("assets/benchmarks/spec_bench/question.jsonl"),
    "chat": Path("assets/benchmarks/own/question.jsonl"),
}
"""The questions of stored runs, by their task."""


def group_of(category: str) -> str:
    """The part of Spec-Bench's report that a category belongs to."""
    return MT_BENCH if category in MT_BENCH_CATEGORIES else category


@cache
def groups_of(task: str) -> Mapping[int, str]:
    """The group of each question of a task, by its number; of other tasks none."""
    lines = read_objects(FILES[task]) if task in FILES else ()
    return {line["question_id"]: group_of(line["category"]) for _, line in lines}


def grouped(rows: pd.DataFrame, groups: Mapping[int, str]) -> pd.DataFrame:
    """The rows of a run with the groups as their tasks, which are the strata of the resamples, if there are any."""
    if not groups:
        return rows
    named = rows["number"].map(groups).fillna("")
    return rows.assign(task=named).sort_values(["task", "number"], ignore_index=True)
