"""A comparison: the lanes race over one prompt, and every pass becomes a step for the page."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.compare import problems, stream
from app.compare.event_stream import Step
from app.compare.lane import MOST_ALTERNATIVES, Lane, baseline_of, keep
from app.compare.lane_choice import to_settings
from app.compare.lane_request import LaneRequest, comparable
from app.compare.starting import device_lock, is_shared, prompt_ids, race, start
from app.runs.run import MAX_TURNS, Run, RunLane, Turn
from app.scheduling import USUAL_LIMITS, AdmissionQueue, Limits, LiveRun
from mars.config import DEFAULT_NEW_TOKENS
from mars.decoders import BASELINE, TABLE
from mars.records import ForwardPass
from mars_tasks import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A person's question, within `limits`; `threshold` is where the slider stands at the start.

    `earlier` maps the key of a lane to the turns before this prompt; each lane reads its own earlier answers. All lanes
    go on from `answer_prefix`, the beginning of the answer.
    """

    prompt: str
    threshold: float | None
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    problem: Problem | None = None
    earlier: Mapping[str, tuple[Turn, ...]] = field(default_factory=dict)
    answer_prefix: str = ""
    limits: Limits = USUAL_LIMITS

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", self.limits.check_prompt(self.prompt))
        start = self.limits.check_text(self.answer_prefix, "The start of the answer")
        object.__setattr__(self, "answer_prefix", start)
        object.__setattr__(self, "max_new_tokens", self.limits.check_length(self.max_new_tokens))
        for turns in self.earlier.values():
            if len(turns) > MAX_TURNS:  # a run with more could not be opened again
                raise ValueError(f"A conversation has at most {MAX_TURNS + 1} questions. Press Run to start afresh.")
            texts = [text for turn in turns for text in (turn.prompt, turn.answer)]
            self.limits.check_conversation([*texts, self.prompt])

    @classmethod
    def following(cls, run: Run, lanes: Sequence[str], **fields: Any) -> "Question":
        """A question that goes on with `run` in these lanes; ValueError if one took no part, or it gets too long."""
        asked = run.question
        turns = {lane.key: Turn(prompt=asked.prompt, answer=asked.answer_prefix + lane.text) for lane in run.lanes}
        earlier = {lane.key: (*lane.earlier, turns[lane.key]) for lane in run.lanes}
        if missing := next((key for key in lanes if key not in earlier), None):
            raise ValueError(f"Lane {missing.upper()} wrote nothing in the last run. Press Run to start afresh.")
        return cls(earlier={key: earlier[key] for key in lanes}, **fields)


@dataclass(slots=True)
class Entry:
    """A lane that takes part; `records` are computed one by one."""

    request: LaneRequest
    lane: Lane
    records: Iterator[ForwardPass]


def enter(request: LaneRequest, question: Question, live: LiveRun, queue: AdmissionQueue, number: int = 0) -> Entry:
    """Start a lane, the one of this `number` on its checkpoint, which is loaded; ValueError if it cannot run so."""
    choice, checkpoint, earlier = request.choice, request.checkpoint, question.earlier.get(request.key, ())
    if checkpoint is None or request.problem:
        raise ValueError(request.problem or f"The checkpoint of {request.title} is not loaded.")
    limits = {"max_new_tokens": question.max_new_tokens, "alternatives": MOST_ALTERNATIVES}
    settings = to_settings(choice, threshold=live.slider.threshold, block_size=checkpoint.block_size, **limits)
    control = live.control(settings.threshold, settings.score, follows=choice.steered)
    control.trace = True  # for Step through
    ids = prompt_ids(checkpoint, question.prompt, question.max_new_tokens, earlier, question.answer_prefix)
    lane = Lane(request.key, request.title, choice.decoder, checkpoint, settings, len(ids), earlier=earlier)
    return Entry(request, lane, start(checkpoint, choice.decoder, ids, settings, control, queue.places, number))


def race_of(entries: Sequence[Entry], queue: AdmissionQueue) -> Iterator[tuple[Lane, ForwardPass | None, float]]:
    """The race of these lanes (`race`): a lane, its pass or None at its end, and its own model time."""
    by_key = {entry.lane.key: entry for entry in entries}
    running = {key: entry.records for key, entry in by_key.items()}
    for key, record, clock_seconds in race(running, lambda key: device_lock(by_key[key].lane.checkpoint, queue)):
        by_key[key].lane.shared = is_shared(running[key])
        yield by_key[key].lane, record, clock_seconds


def compare(entries: Sequence[Entry], question: Question, live: LiveRun, queue: AdmissionQueue) -> Iterator[Step]:
    """Run the lanes to their ends; yields steps: every pass, first differences, verdicts, the closing state."""
    lanes = [entry.lane for entry in entries]
    baseline = baseline_of(lanes)
    differences = Differences(baseline.key, [lane.key for lane in lanes if lane is not baseline])
    open_lanes = {lane.key: lane for lane in lanes}  # those whose end no message has told
    for lane, record, clock_seconds in race_of(entries, queue):
        if record is not None:
            yield _pass_step(lane, record, clock_seconds, lanes, differences)
        else:
            del open_lanes[lane.key]
            apart = differences.add(lane.key, ends=True) if lane.finish_reason == "stop" else []
            yield Step((lane.end(), *parted(apart, baseline)))
        if live.stopped and any(lane.finish_reason is None for lane in lanes):
            yield Step(tuple(lane.end() for lane in open_lanes.values()))
            break
    alike = differences.same(lane.key for lane in lanes if lane.finish_reason == "stop")
    yield Step(tuple(stream.Same(kind="same", lanes=[baseline.key, other]) for other in alike))
    whole = [lane for lane in _exact(lanes, baseline) if lane.key in alike]
    yield Step(tuple(stream.agreement(lane.key, baseline.key, lane.tally.tokens, whole=True) for lane in whole))
    for lane in lanes:
        if question.problem is not None and lane.finish_reason != "cancelled":
            lane.right = problems.is_right(question.problem, question.answer_prefix + lane.text)
            yield Step((stream.Correctness(kind="verdict", lane=lane.key, right=lane.right),))
    yield Step((_closing(lanes, live.reason),))


def finished(identity: str, question: Question, lanes: Sequence[Lane]) -> Run | None:
    """The run to keep, with everything that the lanes have written so far; None if no lane had a pass."""
    asked: dict[str, Any] = {"problem": question.problem, "answer_prefix": question.answer_prefix}
    began = any(lane.records for lane in lanes)
    return keep(identity, question.prompt, question.max_new_tokens, lanes, **asked) if began else None


def _pass_step(
    lane: Lane, record: ForwardPass, clock_seconds: float, lanes: Sequence[Lane], differences: "Differences"
) -> Step:
    message, pieces = lane.add(record)
    messages: list[stream.Message] = [message]
    baseline = baseline_of(lanes)
    messages += parted(differences.add(lane.key, pieces), baseline)
    exact = {other.key for other in _exact(lanes, baseline)}
    for other, tokens in differences.agreeing(lane.key).items():
        if tokens and other in exact:
            messages.append(stream.agreement(other, baseline.key, tokens))
    if ratios := _speed_ups(lanes, baseline):
        messages.append(stream.SpeedUp(kind="speedup", ratios=ratios, baseline=baseline.key))
    began = clock_seconds - record.seconds
    return Step(tuple(messages), lane.key, pass_seconds=record.seconds, began_seconds=began)


def parted(found: list[dict[str, int]], baseline: Lane | RunLane) -> list[stream.Difference]:
    return [stream.Difference(kind="difference", tokens=tokens, baseline=baseline.key) for tokens in found]


def _exact(lanes: Sequence[Lane], baseline: Lane) -> list[Lane]:
    """The exact lanes that follow up the same turns as the baseline; none unless the baseline is autoregressive."""
    if baseline.decoder != BASELINE:
        return []
    alike = [lane for lane in lanes if lane is not baseline and lane.earlier == baseline.earlier]
    return [lane for lane in alike if TABLE[lane.decoder].exact]


def _speed_ups(lanes: Sequence[Lane], baseline: Lane) -> dict[str, float | None]:
    """The speed of each lane over the baseline's, where both have written something; None for another model."""
    others = [lane for lane in lanes if lane is not baseline and lane.tally.seconds and baseline.tally.tokens]
    return {
        lane.key: round(lane.speed_over(baseline), 3) if comparable(lane.checkpoint, baseline.checkpoint) else None
        for lane in others
    }


def _closing(lanes: Sequence[Lane], reason: str) -> stream.Message:
    cancelled = any(lane.finish_reason == "cancelled" for lane in lanes)
    if cancelled and not any(lane.tally.tokens for lane in lanes):
        return stream.state("stopped", "Stopped before the first token.")
    return stream.state("stopped", reason) if cancelled else stream.state("done", "Done.")


class Differences:
    """The first difference of each other lane's text from the baseline's, as the token of both that holds it."""

    def __init__(self, baseline: str, others: Iterable[str]) -> None:
        self._baseline = baseline
        self._common = dict.fromkeys(others, 0)  # characters that a lane and the baseline begin with
        self._texts = dict.fromkeys((baseline, *self._common), "")
        self._ends: dict[str, list[int]] = {lane: [] for lane in self._texts}  # of the tokens, in characters
        self._ended: set[str] = set()
        self._different: set[str] = set()

    def add(self, lane: str, pieces: Sequence[str] = (), *, ends: bool = False) -> list[dict[str, int]]:
        """Add tokens, or note that the text `ends` where another may go on; returns the differences that show now."""
        for piece in pieces:
            self._texts[lane] += piece
            self._ends[lane].append(len(self._texts[lane]))
        if ends:
            self._ended.add(lane)
        shown = [other for other in self._others(lane) if self._look(other)]
        return [{one: self._token_at(one, self._common[other]) for one in (self._baseline, other)} for other in shown]

    def agreeing(self, lane: str) -> dict[str, int]:
        """How many tokens `lane` (for the baseline, each lane) and the baseline have in common, until they differ.

        A token without text is counted with the next one that has some: nothing shows yet what it says.
        """
        return {other: self._agreed(other) for other in self._others(lane) if other not in self._different}

    def same(self, ended: Iterable[str]) -> list[str]:
        """The lanes that wrote the baseline's text, if they and the baseline `ended` by themselves."""
        complete = set(ended)
        others = self._common if self._baseline in complete else ()
        return [other for other in others if other in complete and other not in self._different]

    def _others(self, lane: str) -> Iterable[str]:
        return self._common if lane == self._baseline else (lane,)

    def _look(self, other: str) -> bool:
        """Whether the first difference of this lane shows now."""
        if other in self._different:
            return False
        pair = (self._baseline, other)
        one, two = (self._texts[lane] for lane in pair)
        common, shortest = self._common[other], min(len(one), len(two))
        while common < shortest and one[common] == two[common]:
            common += 1
        self._common[other] = common
        is_over = any(lane in self._ended and len(self._texts[lane]) == common for lane in pair)
        if common < shortest or (is_over and len(one) != len(two)):
            self._different.add(other)
        return other in self._different

    def _token_at(self, lane: str, character: int) -> int:
        """The token with this character; past the end of the text the last one."""
        ends = self._ends[lane]
        return min(bisect_right(ends, character), max(0, len(ends) - 1))

    def _agreed(self, other: str) -> int:
        ends = self._ends[other]
        whole = bisect_right(ends, self._common[other])
        return bisect_left(ends, ends[whole - 1]) + 1 if whole and ends[whole - 1] else 0
