"""The score board: lanes answer one problem after another, each as in a run of Compare; messages as in `stream`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

import mars_tasks as tasks
from analysis.stats.intervals import share
from app.compare import lane_request, problems, stream
from app.compare.comparison import Entry, Question, race_of
from app.compare.event_stream import Step
from app.compare.lane import Lane, baseline_of
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest, comparable
from app.compare.runner import Runner, cannot_write
from app.compare.starting import SHARED, prompt_ids
from app.compare.stream import Card, Refusal, Status
from app.models.sentences import error_sentence
from app.scheduling import USUAL_LIMITS, AdmissionQueue, Limits, LiveRun, whole
from mars.config import DEFAULT_NEW_TOKENS
from mars.metrics import COUNTED
from mars.records import FinishReason
from mars.schema import StrictDict, between, checked, one_of

LONGEST_TEXT = 4_000  # characters of one answer that are shown
FEWEST, MOST, USUAL = 5, 50, 20
ALL = "all"
"""In place of a family: the families take turns."""
_COUNT, _FAMILY = between(int, FEWEST, MOST), one_of((ALL, *tasks.TASKS))
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
    def problems(self) -> list[tasks.Problem]:
        """The problems in order. Seeds that would be too large begin again at 0."""
        families = tuple(tasks.TASKS) if self.task == ALL else (self.task,)
        seeds = problems.LARGEST_SEED + 1
        return [
            tasks.sample(families[number % len(families)], (self.first + number // len(families)) % seeds)
            for number in range(self.count)
        ]


class ProblemDone(StrictDict):
    """The answer of a lane to a problem; `seconds` are those of its model time."""

    kind: Literal["wrote"]
    lane: str
    problem: int
    right: bool
    text: str
    tokens: int
    passes: int
    seconds: float
    reason: FinishReason


@dataclass(slots=True)
class BoardLane:
    """The answers of a lane by the number of the problem, without stopped ones.

    `threshold` is that of the latest answer; it has `turned` if it changed since the first. `shared`: see `Lane`.
    """

    request: LaneRequest
    threshold: float | None = None
    turned: bool = False
    shared: bool = False
    answers: dict[int, ProblemDone] = field(default_factory=dict)

    @property
    def decoder(self) -> str:
        return self.request.choice.decoder

    @property
    def right(self) -> int:
        return sum(answer["right"] for answer in self.answers.values())

    def add(self, number: int, problem: tasks.Problem, lane: Lane) -> ProblemDone:
        """Judge the finished answer of `lane` to this problem."""
        thresholds = [record.rows[0].threshold for record in lane.records if record.phase in COUNTED]
        before = thresholds[0] if not self.answers else self.threshold
        self.turned |= any(threshold != before for threshold in thresholds)
        self.threshold, text = thresholds[-1], lane.text
        self.shared |= lane.shared
        self.answers[number] = answer = ProblemDone(
            kind="wrote",
            lane=lane.key,
            problem=number,
            right=problems.is_right(problem, text),
            text=text[:LONGEST_TEXT] + "…" if len(text) > LONGEST_TEXT else text,
            tokens=lane.tally.tokens,
            passes=lane.tally.passes,
            seconds=lane.tally.seconds,
            reason=lane.finish_reason or "stop",
        )
        return answer


class ProblemAsked(StrictDict):
    """A problem of the board, with its family in words and the known answer."""

    task: str
    family: str
    seed: int
    prompt: str
    answer: str


class Opening(StrictDict):
    """The first message: the problems and the lanes."""

    kind: Literal["open"]
    count: int
    task: str
    first: int
    limit: int
    lanes: list[Card]
    problems: list[ProblemAsked]


class LanesLoaded(StrictDict):
    """The lanes, now with their checkpoints loaded, and the baseline; None if no lane can write."""

    kind: Literal["met"]
    lanes: list[Card]
    baseline: str | None


class ProblemBegun(StrictDict):
    """The lanes write this problem now."""

    kind: Literal["writing"]
    problem: int


class Pairs(StrictDict):
    """The `n` problems that a lane and the baseline have finished, by who is right."""

    n: int
    onlyBaseline: int
    onlyThis: int


class Score(StrictDict):
    """The row of a lane, over the problems that it has finished; a value that is not known yet is None.

    `interval` is Wilson's, 95 %. `speedup` covers the problems that the baseline has finished too; a model of another
    size has none. `threshold` is that of the latest pass, `turned` says that it has changed.
    """

    kind: Literal["score"]
    lane: str
    n: int
    right: int
    interval: list[float] | None
    tokensPerForward: float | None
    tokensPerProblem: float | None
    tokensPerSecond: float | None
    speedup: float | None
    pairs: Pairs | None
    threshold: float | None
    turned: bool


Message = Annotated[
    Opening | LanesLoaded | ProblemBegun | ProblemDone | Score | Status | Refusal, Field(discriminator="kind")
]
"""Whatever a score board tells its page."""


def opening(plan: Plan, chosen: Sequence[tasks.Problem], lanes: Sequence[Card]) -> Opening:
    """The first message: the problems and the lanes."""
    labels = {name: label for label, name in problems.family_choices()}
    return {
        "kind": "open",
        "count": plan.count,
        "task": plan.task,
        "first": plan.first,
        "limit": plan.max_new_tokens,
        "lanes": list(lanes),
        "problems": [
            {
                "task": problem.task,
                "family": labels[problem.task],
                "seed": problem.seed,
                "prompt": problem.prompt,
                "answer": problems.known_answer(problem),
            }
            for problem in chosen
        ],
    }


def standing(lane: BoardLane, baseline: BoardLane) -> Score:
    """The row of `lane`, rounded for the page; the baseline itself has neither speed-up nor pairs."""
    answers, request = [*lane.answers.values()], lane.request
    n, tokens, shared = len(answers), sum(one["tokens"] for one in answers), _both(lane, baseline)
    other, right = lane is not baseline, share(lane.right, n) if n else None
    same = comparable(request.checkpoint, baseline.request.checkpoint)
    return {
        "kind": "score",
        "lane": request.key,
        "n": n,
        "right": lane.right,
        "interval": [round(right.low, 5), round(right.high, 5)] if right else None,
        "tokensPerForward": round(tokens / sum(one["passes"] for one in answers), 4) if n else None,
        "tokensPerProblem": round(tokens / n, 2) if n else None,
        "tokensPerSecond": round(_speed(answers), 2) if n else None,
        "speedup": round(_speed(shared[0]) / _speed(shared[1]), 4) if other and same and shared[0] else None,
        "pairs": pairs(lane, baseline) if other else None,
        "threshold": lane.threshold,
        "turned": lane.turned,
    }


def pairs(lane: BoardLane, baseline: BoardLane) -> Pairs:
    """Both lanes on the problems that both have finished."""
    verdicts = [(mine["right"], theirs["right"]) for mine, theirs in zip(*_both(lane, baseline), strict=True)]
    gained, lost = verdicts.count((True, False)), verdicts.count((False, True))
    return {"n": len(verdicts), "onlyBaseline": lost, "onlyThis": gained}


def _both(lane: BoardLane, baseline: BoardLane) -> tuple[list[ProblemDone], list[ProblemDone]]:
    """The answers of both lanes to the problems that both have finished."""
    numbers = [number for number in lane.answers if number in baseline.answers]
    return [lane.answers[number] for number in numbers], [baseline.answers[number] for number in numbers]


def _speed(answers: Sequence[ProblemDone]) -> float:
    return sum(one["tokens"] for one in answers) / sum(one["seconds"] for one in answers)


def start(runner: Runner, session: str, plan: Plan, choices: Sequence[LaneChoice], threshold: float | None) -> str:
    """Start one board in a thread as the run of `session` and return its identity; ValueError if the queue is full."""
    live = LiveRun(runner.queue.join(), threshold)
    most = plan.max_new_tokens * len(choices) * plan.count
    return runner.begin(session, live, partial(_steps, plan=plan, choices=choices), most)


def _steps(runner: Runner, _: str, live: LiveRun, plan: Plan, choices: Sequence[LaneChoice]) -> Iterator[Step]:
    chosen = plan.problems
    cards = [request.card() for request in lane_request.requested(choices)]
    yield Step((opening(plan, chosen, cards),))
    if not (yield from runner.prepared(choices, live)):
        return
    lanes = dict[str, BoardLane]()
    loaded = lane_request.with_checkpoints(choices, runner.models)
    requests = [_fitting(request, chosen, plan.max_new_tokens) for request in loaded]
    limits: dict[str, Any] = {"max_new_tokens": plan.max_new_tokens, "limits": plan.limits}
    for number, problem in enumerate(chosen):
        question = Question(prompt=problem.prompt, threshold=None, **limits)
        entries, cards = runner.entered(requests, question, live)
        if not number:
            lanes = {entry.lane.key: BoardLane(entry.request, entry.lane.settings.threshold) for entry in entries}
            key = baseline_of([*lanes.values()]).request.key if lanes else None
            yield Step((LanesLoaded(kind="met", lanes=cards, baseline=key),))
            if key is None:
                raise ValueError(cannot_write(cards))
            baseline = lanes[key]
            yield Step((stream.state("running", f"The lanes solve {plan.count} problems."),))
        yield Step((ProblemBegun(kind="writing", problem=number),))
        for written in _finished(entries, live, runner.queue):
            answer = lanes[written.key].add(number, problem, written)
            rows = (standing(lane, baseline) for lane in lanes.values())
            yield Step((answer, *rows))
        if live.stopped:
            break
    yield Step((_closing([*lanes.values()], live),))


def _fitting(request: LaneRequest, chosen: Sequence[tasks.Problem], most: int) -> LaneRequest:
    """The request; with a sentence as its problem if one of the prompts does not fit its context."""
    if request.problem or request.checkpoint is None:
        return request
    try:
        for problem in chosen:
            prompt_ids(request.checkpoint, problem.prompt, most)
    except ValueError as error:
        return replace(request, problem=error_sentence(error))
    return request


def _finished(entries: Sequence[Entry], live: LiveRun, queue: AdmissionQueue) -> Iterator[Lane]:
    """Each lane when it has finished its answer; none after the run was stopped."""
    for lane, record, _ in race_of(entries, queue):
        if record is not None:
            lane.add(record)
        elif lane.finish_reason not in (None, "cancelled"):
            lane.end()
            yield lane
        if live.stopped:
            return


def _closing(lanes: Sequence[BoardLane], live: LiveRun) -> stream.Status:
    told = " ".join(f"{lane.request.title}: {_result(lane)}." for lane in lanes)
    told += SHARED if any(lane.shared for lane in lanes) else ""
    return stream.state("stopped", f"{live.reason} {told}") if live.stopped else stream.state("done", f"Done. {told}")


def _result(lane: BoardLane) -> str:
    return f"{lane.right} of {len(lane.answers)} right" if lane.answers else "no answer was finished"
