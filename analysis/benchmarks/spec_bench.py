"""Spec-Bench run: every lane answers a question before the next question is asked, and the journal keeps it at once.

So what is compared lies close together in time, after an interruption as well. The order of the lanes moves on by one
with every question, and each lane answers a little, uncounted, before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.benchmarks.conversation import Turn, Turns, check_fits, converse
from analysis.benchmarks.lanes import BenchmarkLane, BenchmarkSetup, digest, setting_entry
from analysis.benchmarks.questions import Question
from analysis.harness.journal import Journal
from analysis.runs.files import write_run

TASK = "spec_bench"
WARM_UP_TOKENS = 16
Answered = dict[str, dict[int, Turns]]
"""Of each lane, by its label, the answers by the number of the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecBench:
    """The questions and who answers them, the baseline first; `batch_size` questions decode at once.

    `setup` is what the entries of the run store say of the questions and of the machine.
    """

    lanes: Sequence[BenchmarkLane]
    questions: Sequence[Question]
    batch_size: int
    setup: BenchmarkSetup

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch must be >= 1, got {self.batch_size}")
        for lane in {id(lane.checkpoint): lane for lane in self.lanes}.values():
            check_fits(lane.checkpoint, self.questions, lane.settings.max_new_tokens)

    def answers(self, journal: Journal, progress: Callable[[int], object] | None = None) -> Answered:
        """The answers of all lanes; what the journal has is not asked again, and `progress` is told of all.

        Raises:
            ValueError: a prompt does not fit, or a decoder cannot run its checkpoint.
        """
        warm = False
        for place, first in enumerate(range(0, len(self.questions), self.batch_size)):
            batch = self.questions[first : first + self.batch_size]
            key = ",".join(str(question.number) for question in batch)
            if key not in journal:
                warm = warm or self._warm_up(batch)
                journal.add(key, self._ask(batch, place % len(self.lanes)))
            if progress is not None:
                progress(len(batch))
        found: Answered = {lane.label: {} for lane in self.lanes}
        for result in journal.results():
            for label, answered in result.items():
                found[label] |= {int(n): tuple(map(Turn.from_dict, turns)) for n, turns in answered.items()}
        return found

    def journal_name(self) -> str:
        """A file name of its own for every run that measures something else."""
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
        lanes = [*self.lanes[first:], *self.lanes[:first]]
        found = {lane.label: converse(lane, batch, self.batch_size) for lane in lanes}
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
