"""The problems of a score board, and the answers of a lane to them."""

from dataclasses import dataclass, field

from app.compare import problems
from app.compare.lane import Lane
from app.compare.lane_request import LaneRequest
from app.scheduling import USUAL_LIMITS, Limits, whole
from mars.config import DEFAULT_NEW_TOKENS
from mars.metrics import COUNTED
from mars.records import FinishReason
from mars.schema import between, checked, one_of
from mars_tasks import TASKS, Problem, sample

FEWEST, MOST, USUAL = 5, 50, 20
ALL = "all"
"""In place of a family: the families take turns."""
_COUNT, _FAMILY = between(int, FEWEST, MOST), one_of((ALL, *TASKS))
_SEED = between(int, 0, problems.LARGEST_SEED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`count` problems of one family or of all, with the seeds from `first` on, answered within `max_new_tokens`."""

    count: int = USUAL
    task: str = ALL
    first: int
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    limits: Limits = USUAL_LIMITS

    def __post_init__(self) -> None:
        settle = object.__setattr__
        settle(self, "count", checked(_COUNT, whole(self.count), "The number of problems"))
        settle(self, "first", checked(_SEED, whole(self.first), "The first seed"))
        settle(self, "task", checked(_FAMILY, self.task, "The family"))
        settle(self, "max_new_tokens", self.limits.check_length(self.max_new_tokens))

    @property
    def problems(self) -> list[Problem]:
        """The problems in order. Seeds that would be too large begin again at 0."""
        families = tuple(TASKS) if self.task == ALL else (self.task,)
        seeds = problems.LARGEST_SEED + 1
        return [
            sample(families[number % len(families)], (self.first + number // len(families)) % seeds)
            for number in range(self.count)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answer of a lane to one problem."""

    text: str
    right: bool
    tokens: int
    passes: int
    seconds: float
    reason: FinishReason


@dataclass(slots=True)
class BoardLane:
    """The answers of a lane by the number of the problem, without stopped ones.

    `threshold` is that of the latest answer; it has `turned` if it changed while an answer or since one was written.
    """

    request: LaneRequest
    threshold: float | None = None
    turned: bool = False
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    @property
    def decoder(self) -> str:
        return self.request.choice.decoder

    @property
    def right(self) -> int:
        return sum(outcome.right for outcome in self.outcomes.values())

    def add(self, number: int, problem: Problem, lane: Lane) -> Outcome:
        """Judge the finished answer of `lane` to this problem."""
        thresholds = [record.rows[0].threshold for record in lane.records if record.phase in COUNTED]
        before = thresholds[0] if not self.outcomes else self.threshold
        self.turned |= any(threshold != before for threshold in thresholds)
        self.threshold, tally = thresholds[-1], lane.tally
        self.outcomes[number] = outcome = Outcome(
            text=lane.text,
            right=problems.is_right(problem, lane.text),
            tokens=tally.tokens,
            passes=tally.passes,
            seconds=tally.seconds,
            reason=lane.finish_reason or "stop",
        )
        return outcome
