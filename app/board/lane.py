"""One lane of a score board: folds the records of its batches into outcomes and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.compare import problems
from app.compare.lane_request import LaneRequest
from app.compare.starting import prompt_ids
from app.scheduling.sessions import LiveRun
from mars.config import DecodingSettings
from mars.control import Control
from mars.metrics import COUNTED, Count, Tally
from mars.records import FinishReason, ForwardPass
from mars.tasks import Problem

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answer of a lane to one problem. `passes` are those that this problem took part in."""

    text: str
    right: bool
    tokens: int
    passes: int
    reason: FinishReason


@dataclass(slots=True)
class BoardLane:
    """The answers of one checkpoint and decoder to the problems.

    `outcomes` has the finished problems by number, without stopped ones. `tally` counts every pass, `batches` has one
    count for each finished batch. `thresholds` are those that were in force, in order. `inactive` says why the lane
    writes only one token per pass at a threshold, if it does.
    """

    key: str
    title: str
    checkpoint: Checkpoint
    decoder: str
    settings: DecodingSettings
    control: Control
    inactive: Callable[[float | None], str | None] = lambda _: None
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    batches: list[Count] = field(default_factory=list)
    thresholds: list[float | None] = field(default_factory=list)
    _current: list[tuple[int, Problem]] = field(default_factory=list, init=False)
    _written: list[list[int]] = field(default_factory=list, init=False)
    _batch: Tally = field(default_factory=Tally, init=False)

    @classmethod
    def of(cls, request: LaneRequest, live: LiveRun, max_new_tokens: int) -> BoardLane:
        """The lane of this request in the run `live`; if the lane follows the slider, the slider of `live` acts on it.

        Raises:
            ValueError: one sentence why it cannot write.
        """
        checkpoint, choice = request.checkpoint, request.choice
        if checkpoint is None or request.problem:
            raise ValueError(request.problem or f"The checkpoint of {request.title} is not loaded.")
        settings = request.settings(live.threshold, max_new_tokens, alternatives=0)
        control = live.control(settings.threshold, settings.score, follows=choice.steered)
        return cls(request.key, request.title, checkpoint, choice.decoder, settings, control, request.inactive)

    @property
    def threshold(self) -> float | None:
        """The threshold of the latest pass; before the first pass, the one in the settings."""
        return self.thresholds[-1] if self.thresholds else self.settings.threshold

    @property
    def right(self) -> int:
        """The number of problems that are right so far."""
        return sum(outcome.right for outcome in self.outcomes.values())

    def check(self, problems: Iterable[Problem]) -> None:
        """Raise ValueError, one sentence, if a prompt does not fit the context."""
        for problem in problems:
            prompt_ids(self.checkpoint, problem.prompt, self.settings.max_new_tokens)

    def warm_up(self, problems: Mapping[int, Problem]) -> Iterator[ForwardPass]:
        """Write a few uncounted tokens on these problems, so that slow first calls do not count in the first batch."""
        return self._decode(problems, replace(self.settings, max_new_tokens=WARM_UP_TOKENS))

    def begin(self, problems: Mapping[int, Problem]) -> Iterator[ForwardPass]:
        """The records of the next batch, each computed when the caller asks for it; give each to `add`.

        Raises:
            ValueError: one sentence: a prompt does not fit, or the decoder cannot run so.
        """
        self._current = list(problems.items())
        self._written = [[] for _ in problems]
        self._batch = Tally()
        return self._decode(problems, self.settings)

    def add(self, record: ForwardPass) -> list[int]:
        """Count one pass; returns the numbers of the problems that ended with it."""
        self.tally.add(record)
        self._batch.add(record)
        if record.phase in COUNTED and self.thresholds[-1:] != [record.rows[0].threshold]:
            self.thresholds.append(record.rows[0].threshold)
        ended = []
        for row in record.rows:
            self._written[row.row] += row.accepted_ids
            if row.finish_reason not in (None, "cancelled"):
                ended.append(self._end(row.row))
        return ended

    def end(self) -> None:
        """Close the batch: it has no more passes."""
        if all(number in self.outcomes for number, _ in self._current):
            self.batches.append(self._batch)

    def _end(self, row: int) -> int:
        number, problem = self._current[row]
        count = self._batch.rows[row]
        text = self.checkpoint.decode(self._written[row])
        self.outcomes[number] = Outcome(
            text=text,
            right=problems.is_right(problem, text),
            tokens=count.tokens,
            passes=count.passes,
            reason=count.finish_reason or "stop",
        )
        return number

    def _decode(self, problems: Mapping[int, Problem], settings: DecodingSettings) -> Iterator[ForwardPass]:
        from mars.decoding import DECODERS  # late: it reads torch, and the page is up before that
        from mars.engine.workers import computed

        prompts = [
            prompt_ids(self.checkpoint, problem.prompt, settings.max_new_tokens) for problem in problems.values()
        ]
        engine = self.checkpoint.engine
        return computed(engine.device, DECODERS[self.decoder](engine, prompts, settings, self.control))
