"""A benchmark as it runs: the lanes take turns, and the journal keeps every answer at once.

The order of the lanes rotates by one with every turn, after a short, uncounted warm-up of all. Answers whose seconds
are compared are close together in time, even after an interruption: all lanes begin a turn that was cut short again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.benches.bench import rotated
from analysis.benchmarks.lanes import BenchmarkLane, Turns, check_fits, converse, whole
from analysis.benchmarks.questions import Question
from analysis.harness.journal import Journal
from analysis.runs.schema import run_id
from mars.provenance import hardware
from mars.schema import checked

WARM_UP_TOKENS = 16
Answered = dict[str, dict[int, Turns]]
"""Of each lane, by its label, the answers by the number of the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSetup:
    """Its task, the `fingerprint` of its questions, the first `limit` of all or of a category.

    `metric` names the test of a right answer, None if nobody judges; `threads` are those of torch.
    """

    task: str
    fingerprint: str
    limit: int | None
    metric: str | None
    dtype: str
    device: str
    threads: int
    checked_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The questions, and the lanes that answer them in turn: `batch_size` at once, so many `batches` in each turn.

    `timed`: alone on the machine, so that speeds compare.
    """

    setup: BenchmarkSetup
    lanes: Sequence[BenchmarkLane]
    questions: Sequence[Question]
    batch_size: int
    batches: int = 1
    timed: bool = True

    def __post_init__(self) -> None:
        for lane in {id(lane.checkpoint): lane for lane in self.lanes}.values():
            check_fits(lane.checkpoint, self.questions, lane.settings.max_new_tokens)

    @property
    def turn_size(self) -> int:
        """Questions that a lane answers before it is the turn of the next."""
        return self.batches * self.batch_size

    @property
    def digest(self) -> str:
        """10 hex digits: the same for a run that measures the same on the same kind of machine.

        They are part of the names of a journal and a timed group, so that two machines neither mix their seconds nor
        replace each other's runs.
        """
        who = [(lane.label, lane.model["fingerprint"], asdict(lane.settings)) for lane in self.lanes]
        where = hardware(self.setup.device)
        told = json.dumps([who, asdict(self.setup), len(self.questions), self.batch_size, where], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:10]

    def journal(self, folder: Path) -> Journal:
        """The journal of this very benchmark, in a folder."""
        return Journal(folder / f".{self.setup.task}-{self.digest}.jsonl")

    def entry(self, lane: BenchmarkLane) -> dict[str, Any]:
        """The id and the setting of a lane's run in the run store; only the provenance is missing."""
        setup = self.setup
        fields = {
            "model": dict(lane.model),
            "draft": None,
            "decoder": lane.spec.decoder,
            "settings": asdict(lane.settings),
            "tasks": [setup.task],
            "problems": len(self.questions),
            "seed": 0,
            "batch_size": self.batch_size,
            "dtype": setup.dtype,
            "device": setup.device,
            "timed": self.timed,
            "group": f"{setup.task}/{self.digest}" if self.timed else None,
            "harness": {
                "task_hash": setup.fingerprint,
                "limit": setup.limit,
                "metric": setup.metric,
                "checked_by": setup.checked_by,
                "apply_chat_template": True,
            },
        }
        if setup.metric is None:
            fields["judged"] = False
        name = f"{lane.model['name']}.{lane.label}-{setup.task}.b{self.batch_size}"
        return {"id": run_id(name, fields), **fields}

    def answers(
        self, journal: Journal, progress: Callable[[int], object], lanes: Sequence[BenchmarkLane] | None = None
    ) -> Answered:
        """The answers of all lanes, or of these; those in the journal are not asked for again.

        `progress` is told how many there are more.

        Raises:
            ValueError: a prompt does not fit, or a decoder cannot run its checkpoint.
        """
        lanes = self.lanes if lanes is None else lanes
        warm = False
        for turn, first in enumerate(range(0, len(self.questions), self.turn_size)):
            asked = self.questions[first : first + self.turn_size]
            missing = {lane.label: [each for each in asked if _key(lane, each) not in journal] for lane in lanes}
            if not any(missing.values()):
                progress(len(lanes) * len(asked))
                continue
            if not warm:
                self._warm_up(lanes, asked)
                warm = True
            for lane in rotated(lanes, turn):
                left = asked if self.timed else missing[lane.label]
                progress(len(asked) - len(left))
                for place, turns in converse(lane, left, self.batch_size):
                    journal.add(_key(lane, left[place]), [asdict(each) for each in turns])
                    progress(1)
        return {
            lane.label: {each.number: checked(Turns, journal[_key(lane, each)]) for each in self.questions}
            for lane in lanes
        }

    def rows(self, answered: Mapping[int, Turns], right: Callable[[int, str], bool] | None = None) -> pd.DataFrame:
        """The rows of a lane's run; `right` judges the text of the question with this number."""
        answers = {number: whole(turns) for number, turns in answered.items()}
        return pd.DataFrame(
            [
                {
                    "task": self.setup.task,
                    "number": number,
                    "correct": right is not None and right(number, answer.text),
                    **answer.columns(),
                }
                for number, answer in answers.items()
            ]
        )

    def _warm_up(self, lanes: Sequence[BenchmarkLane], asked: Sequence[Question]) -> None:
        first_turns = [each.first_turn for each in asked[: self.batch_size]]
        for lane in lanes:
            short = replace(lane.settings, max_new_tokens=min(lane.settings.max_new_tokens, WARM_UP_TOKENS))
            list(converse(replace(lane, settings=short), first_turns, self.batch_size))


def _key(lane: BenchmarkLane, question: Question) -> str:
    return f"{lane.label} {question.number}"
