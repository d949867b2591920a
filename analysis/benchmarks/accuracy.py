"""The figures of a run whose answers were judged: accuracy, its difference to AR on the same questions, speed."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.stats.intervals import Interval
from analysis.stats.pairs import paired_difference
from analysis.stats.resampling import accuracy, tokens_per_forward, tokens_per_second
from analysis.text_table import Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A run on n questions. `points` are those of its accuracy to AR's, with the score interval of pairs (95 %).

    `by_task` is the accuracy on the questions of each task, `instructions` the share of instructions that were
    followed, where there are any.
    """

    label: str
    n: int
    right: int
    accuracy: Interval
    points: Interval | None
    tokens_per_forward: Interval
    tokens_per_second: Interval
    by_task: dict[str, Interval]
    instructions: Interval | None = None


def figures(
    label: str, rows: pd.DataFrame, baseline: pd.DataFrame | None, instructions: Interval | None = None
) -> Figures:
    """The figures of a run from its rows, and AR's on the same questions; AR's own rows have no points."""
    return Figures(
        label=label,
        n=len(rows),
        right=int(rows["correct"].sum()),
        accuracy=accuracy(rows),
        points=None if baseline is None or baseline is rows else paired_difference(rows, baseline).score_interval(),
        tokens_per_forward=tokens_per_forward(rows),
        tokens_per_second=tokens_per_second(rows),
        by_task={str(task): accuracy(part) for task, part in rows.groupby("task", sort=False)},
        instructions=instructions,
    )


def _points(each: Figures) -> str:
    found = each.points
    return f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]" if found else "–"


def shares_of(found: Interval | None) -> str:
    """A share with its interval, in per cent."""
    return f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]" if found else "–"


COLUMNS: Columns[Figures] = (
    ("decoder", lambda each: each.label),
    ("right", lambda each: f"{each.right}/{each.n}"),
    ("accuracy", lambda each: shares_of(each.accuracy)),
    ("points to AR", _points),
    ("tokens/forward", lambda each: f"{each.tokens_per_forward.value:.2f}"),
    ("tok/s", lambda each: f"{each.tokens_per_second.value:.0f}"),
)
INSTRUCTIONS: Columns[Figures] = (("instructions", lambda each: shares_of(each.instructions)),)
