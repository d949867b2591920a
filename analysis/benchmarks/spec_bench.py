"""The figures of Spec-Bench, as that benchmark defines them (its evaluation/speed.py).

Mean accepted tokens are the new tokens of all answers over their decode passes; the speed is the mean over questions of
tokens per second, prefill included, and the speed-up the ratio of two such means. Intervals resample the questions,
group by group, in the same way for both sides of a ratio; a group with a single question adds nothing to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from analysis.benchmarks.lanes import Turns, whole
from analysis.benchmarks.questions import Question, parts_of
from analysis.stats.intervals import Interval
from analysis.stats.pairs import speed_up_of_means
from analysis.stats.resampling import percentiles, ratio_of_sums, sums
from analysis.text_table import Columns
from mars.decoding.pool import shared_tokens

TASK = "spec_bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first difference of an answer from the baseline's: question, turn and token, each counted from 0.

    A turn's prompt holds the earlier answers, so a question has at most one difference.
    """

    question: int
    turn: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A lane on n questions of a part; the baseline has no speed-up. `same` counts texts equal to the baseline's."""

    part: str
    n: int
    accepted: Interval
    tokens_per_second: Interval
    speed_up: Interval | None
    same: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """The figures of a lane by part, in order, and the texts that differ from the baseline's."""

    label: str
    figures: tuple[Figures, ...]
    differences: tuple[Difference, ...]


def report(answered: Mapping[str, Mapping[int, Turns]], questions: Sequence[Question]) -> list[LaneReport]:
    """A report of each lane; the first one is the baseline."""
    reports: list[LaneReport] = []
    baseline, *_ = answered.values()
    for number, (label, answers) in enumerate(answered.items()):
        differences = [
            found
            for question in questions
            if (found := difference(question.number, answers[question.number], baseline[question.number]))
        ]
        figures = [
            _figures(name, part, answers, baseline if number else None, {each.question for each in differences})
            for name, part in parts_of(questions).items()
        ]
        reports.append(LaneReport(label=label, figures=tuple(figures), differences=tuple(differences)))
    return reports


def difference(question: int, ours: Turns, theirs: Turns) -> Difference | None:
    """The first token at which two answers differ; None if they are the same."""
    for turn, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine.ids != other.ids:
            return Difference(question=question, turn=turn, token=shared_tokens(mine.ids, other.ids))
    return None


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


def to_dict(lane: LaneReport) -> dict[str, Any]:
    """The object that `--json` writes for a lane."""
    return {
        "decoder": lane.label,
        "parts": {figures.part: {k: v for k, v in asdict(figures).items() if k != "part"} for figures in lane.figures},
        "differences": [asdict(difference) for difference in lane.differences],
    }


def _figures(
    name: str,
    part: Sequence[Question],
    ours: Mapping[int, Turns],
    theirs: Mapping[int, Turns] | None,
    differ: set[int],
) -> Figures:
    rows = _rows(part, ours)
    (total,), drawn = sums(rows, rows, ["speed"])
    return Figures(
        part=name,
        n=len(part),
        accepted=ratio_of_sums(rows, "tokens", "passes"),
        tokens_per_second=percentiles(total / len(part), drawn[:, 0] / len(part)),
        speed_up=None if theirs is None else speed_up_of_means(rows, _rows(part, theirs)),
        same=sum(question.number not in differ for question in part),
    )


def _rows(part: Sequence[Question], answers: Mapping[int, Turns]) -> pd.DataFrame:
    """A row for each question, sorted: groups are the strata of the resamples."""
    ordered = sorted(part, key=lambda each: (each.group, each.number))
    rows = pd.DataFrame([whole(answers[question.number]).columns() for question in ordered])
    return rows.assign(
        task=[question.group for question in ordered],
        number=[question.number for question in ordered],
        speed=rows["tokens"] / rows["seconds"],
    )
