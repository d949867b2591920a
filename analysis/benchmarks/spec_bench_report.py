"""The report of Spec-Bench: its two figures for every part of the questions, and the first differences of texts.

As that benchmark defines them (its evaluation/speed.py): mean accepted tokens are the new tokens of all answers over
their decode passes; the speed is the mean over questions of tokens per second, prefill included, and the speed-up the
ratio of two such means. Intervals resample the questions, group by group, and alike in both of a ratio; a group of
which one question is asked adds nothing to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from analysis.benchmarks.conversation import Turns
from analysis.benchmarks.questions import Question, parts_of
from analysis.stats import Interval
from analysis.stats.resampling import percentiles, ratio_of_sums, sums
from analysis.text_table import aligned

HEADING = ("part", "n", "tokens/pass", "95 % interval", "tok/s", "speed-up", "95 % interval", "same text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where the text of an answer first differs from the baseline's: question, turn and token, each counted from 0.

    A turn's prompt holds the earlier answers, so a question has one difference at most.
    """

    question: int
    turn: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A lane on a part of the questions, n of them; the baseline has no speed-up. `same` texts are the baseline's."""

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
    """The first token at which two answers part; None where they are the same."""
    for turn, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine.ids != other.ids:
            pairs = zip(mine.ids, other.ids, strict=False)
            shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(mine.ids), len(other.ids)))
            return Difference(question=question, turn=turn, token=shared)
    return None


def to_table(lane: LaneReport) -> str:
    """A line for each part, columns aligned."""
    return aligned([HEADING, *(_line(figures) for figures in lane.figures)])


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
    speed_up = None
    if theirs is not None:
        (before,), drawn_before = sums(rows, _rows(part, theirs), ["speed"])
        speed_up = percentiles(total / before, drawn[:, 0] / drawn_before[:, 0])
    return Figures(
        part=name,
        n=len(part),
        accepted=ratio_of_sums(rows, "tokens", "passes"),
        tokens_per_second=percentiles(total / len(part), drawn[:, 0] / len(part)),
        speed_up=speed_up,
        same=sum(question.number not in differ for question in part),
    )


def _rows(part: Sequence[Question], answers: Mapping[int, Turns]) -> pd.DataFrame:
    """A row for each question, sorted: groups are the strata of the resamples."""
    rows = []
    for question in sorted(part, key=lambda each: (each.group, each.number)):
        turns = answers[question.number]
        tokens, seconds = sum(len(turn.ids) for turn in turns), sum(turn.seconds for turn in turns)
        rows.append(
            {
                "task": question.group,
                "number": question.number,
                "tokens": tokens,
                "passes": sum(turn.passes for turn in turns),
                "speed": tokens / seconds,
            }
        )
    return pd.DataFrame(rows)


def _line(figures: Figures) -> tuple[str, ...]:
    accepted, speed_up = figures.accepted, figures.speed_up
    return (
        figures.part,
        str(figures.n),
        f"{accepted.value:.2f}",
        f"{accepted.low:.2f} to {accepted.high:.2f}",
        f"{figures.tokens_per_second.value:.1f}",
        "–" if speed_up is None else f"{speed_up.value:.2f}×",
        "–" if speed_up is None else f"{speed_up.low:.2f} to {speed_up.high:.2f}",
        f"{figures.same}/{figures.n}",
    )
