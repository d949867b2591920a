"""The problems of a score board, and the answers of one lane to them, folded from the records of its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.compare.lane_request import LaneRequest
from app.compare.problems import LARGEST_SEED, is_right
from app.compare.starting import prompt_ids
from app.scheduling import USUAL_LIMITS, Limits, LiveRun, whole
from mars.config import DEFAULT_NEW_TOKENS, DecodingSettings
from mars.control import Control
from mars.metrics import COUNTED, Count, Tally
from mars.records import FinishReason, ForwardPass
from mars.schema import between, checked, one_of
from mars_tasks import TASKS, Problem, sample

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

FEWEST, MOST, USUAL = 5, 50, 20
BATCH = 5
ALL = "all"
"""In place of a family: the families take turns."""
WARM_UP_TOKENS = 4
_COUNT, _SEED, _FAMILY = between(int, FEWEST, MOST), between(int, 0, LARGEST_SEED), one_of((ALL, *TASKS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`count` problems of one family or of all, with the seeds from `first` on, answered within `max_new_tokens`."""

    count: int = USUAL
    task: str = ALL
    first: int
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    limits: Limits = USUAL_LIMITS

    def __post_init__(self) -> None:
        """Raise ValueError with a sentence for the person."""
        settle = object.__setattr__
        settle(self, "count", checked(_COUNT, whole(self.count), "The number of problems"))
        settle(self, "first", checked(_SEED, whole(self.first), "The first seed"))
        settle(self, "task", checked(_FAMILY, self.task, "The family"))
        settle(self, "max_new_tokens", self.limits.check_length(self.max_new_tokens))

    @property
    def problems(self) -> list[Problem]:
        """The problems in order. Seeds that would be too large begin again at 0."""
        families = tuple(TASKS) if self.task == ALL else (self.task,)
        return [
            sample(families[number % len(families)], (self.first + number // len(families)) % (LARGEST_SEED + 1))
            for number in range(self.count)
        ]


def batches(problems: Sequence[Problem]) -> Iterator[dict[int, Problem]]:
    """The problems that share forward passes, by their number."""
    for first in range(0, len(problems), BATCH):
        yield dict(enumerate(problems[first : first + BATCH], first))


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
        """The lane of this request, steered by the run `live`; ValueError with one sentence if it cannot write."""
        checkpoint, settings, control = request.prepared(live, max_new_tokens)
        return cls(request.key, request.title, checkpoint, request.choice.decoder, settings, control, request.inactive)

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
        """The records of the next batch, computed one by one, for `add`; ValueError if a prompt does not fit."""
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
        count, text = self._batch.rows[row], self.checkpoint.decode(self._written[row])
        right, reason = is_right(problem, text), count.finish_reason or "stop"
        self.outcomes[number] = Outcome(text=text, right=right, tokens=count.tokens, passes=count.passes, reason=reason)
        return number

    def _decode(self, problems: Mapping[int, Problem], settings: DecodingSettings) -> Iterator[ForwardPass]:
        from mars.decoding import DECODERS  # late: it reads torch, and the page is up before that
        from mars.engine.workers import computed

        prompts = [prompt_ids(self.checkpoint, each.prompt, settings.max_new_tokens) for each in problems.values()]
        engine = self.checkpoint.engine
        return computed(engine.device, DECODERS[self.decoder](engine, prompts, settings, self.control))
