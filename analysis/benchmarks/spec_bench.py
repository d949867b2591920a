"""A Spec-Bench run: every lane answers a question before the next one is asked; the journal keeps each answer at once.

So compared answers are close together in time, even after an interruption. The order of the lanes rotates by one with
every question, and each lane makes a short, uncounted warm-up before the first.

The figures are as that benchmark defines them (its evaluation/speed.py): mean accepted tokens are the new tokens of all
answers over their decode passes; the speed is the mean over questions of tokens per second, prefill included, and the
speed-up the ratio of two such means. Intervals resample the questions, group by group, in the same way for both sides
of a ratio; a group with a single question adds nothing to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.benches.bench import rotated
from analysis.benchmarks.conversation import Turn, Turns, check_fits, converse
from analysis.benchmarks.lanes import BenchmarkLane, BenchmarkSetup, digest, setting_entry
from analysis.benchmarks.questions import Question, parts_of
from analysis.harness.journal import Journal
from analysis.runs.files import write_run
from analysis.stats import Interval
from analysis.stats.pairs import speed_up_of_means
from analysis.stats.resampling import percentiles, ratio_of_sums, sums
from analysis.text_table import aligned

TASK = "spec_bench"
WARM_UP_TOKENS = 16
HEADING = ("part", "n", "tokens/pass", "95 % interval", "tok/s", "speed-up", "95 % interval", "same text")
Answered = dict[str, dict[int, Turns]]
"""Of each lane, by its label, the answers by the number of the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecBench:
    """The questions and the lanes that answer them, the baseline first; `batch_size` questions decode at once.

    `setup` describes the questions and the machine for the entries of the run store.
    """

    lanes: Sequence[BenchmarkLane]
    questions: Sequence[Question]
    batch_size: int
    setup: BenchmarkSetup

    def __post_init__(self) -> None:
        for lane in {id(lane.checkpoint): lane for lane in self.lanes}.values():
            check_fits(lane.checkpoint, self.questions, lane.settings.max_new_tokens)

    def answers(self, journal: Journal, progress: Callable[[int], object] | None = None) -> Answered:
        """The answers of all lanes; answers in the journal are not asked for again, but count for `progress`.

        Raises:
            ValueError: a prompt does not fit, or a decoder cannot run its checkpoint.
        """
        warm = False
        for place, first in enumerate(range(0, len(self.questions), self.batch_size)):
            batch = self.questions[first : first + self.batch_size]
            key = ",".join(str(question.number) for question in batch)
            if key not in journal:
                warm = warm or self._warm_up(batch)
                journal.add(key, self._ask(batch, place))
            if progress is not None:
                progress(len(batch))
        found: Answered = {lane.label: {} for lane in self.lanes}
        for result in journal.results():
            for label, answered in result.items():
                found[label] |= {int(n): tuple(map(Turn.from_dict, turns)) for n, turns in answered.items()}
        return found

    def journal_name(self) -> str:
        """A file name that differs for every run that measures something else."""
        return f".{TASK}-{self._digest()}.jsonl"

    def store(self, answered: Answered, folder: Path, provenance: Mapping[str, Any]) -> list[str]:
        """Put a run of each lane into the store, a row for each question; returns the ids.

        Nobody judged the answers: the entries say so, and `correct` is false in every row.
        """
        ids = []
        for lane in self.lanes:
            group = f"{TASK}/{self._digest()}"
            entry = setting_entry(lane, self.setup, len(self.questions), self.batch_size, group, judged=False)
            rows = [_row(number, turns) for number, turns in answered[lane.label].items()]
            write_run(folder, {**entry, **provenance}, pd.DataFrame(rows))
            ids.append(str(entry["id"]))
        return ids

    def _ask(self, batch: Sequence[Question], first: int) -> dict[str, Any]:
        found = {lane.label: converse(lane, batch, self.batch_size) for lane in rotated(self.lanes, first)}
        numbers = [str(question.number) for question in batch]
        return {
            label: {number: [asdict(turn) for turn in turns] for number, turns in zip(numbers, answered, strict=True)}
            for label, answered in found.items()
        }

    def _warm_up(self, batch: Sequence[Question]) -> bool:
        for lane in self.lanes:
            short = replace(lane.settings, max_new_tokens=min(lane.settings.max_new_tokens, WARM_UP_TOKENS))
            converse(replace(lane, settings=short), batch, self.batch_size, turns=1)
        return True

    def _digest(self) -> str:
        return digest(self.lanes, self.setup, len(self.questions), self.batch_size)


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
    rows = pd.DataFrame([_row(question.number, answers[question.number]) for question in ordered])
    return rows.assign(task=[question.group for question in ordered], speed=rows["tokens"] / rows["seconds"])


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


def _row(number: int, turns: Turns) -> dict[str, Any]:
    """A row of the run store: all turns of a question together."""
    lengths = [0] * max(len(turn.acceptance_lengths) for turn in turns)
    for turn in turns:
        for place, times in enumerate(turn.acceptance_lengths):
            lengths[place] += times
    return {
        "task": TASK,
        "number": number,
        "correct": False,
        "tokens": sum(len(turn.ids) for turn in turns),
        "passes": sum(turn.passes for turn in turns),
        "seconds": sum(turn.seconds for turn in turns),
        "model_seconds": sum(turn.model_seconds for turn in turns),
        "finish_reason": turns[-1].finish_reason,
        "acceptance_lengths": lengths,
        "text": "\n\n".join(turn.text for turn in turns),
    }
