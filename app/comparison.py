"""A comparison: the lanes race over one prompt, and every pass becomes a step for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app import problems, stream
from app.device import Device
from app.difference import FirstDifference
from app.lane import Lane
from app.limits import USUAL_LIMITS, Limits
from app.pace import Step
from app.race import LaneEnd, LanePass, race
from app.runs.keeping import keep
from app.runs.run import Asked, Run
from app.sessions import LiveRun
from app.starting import is_shared, prompt_ids, start, turn
from mars.config import DecodingSettings
from mars.records import ForwardPass
from mars.tasks import Problem

ALTERNATIVES = 5  # recorded for each proposal; costs a top-k over the vocabulary a pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person asks for, within `limits`; `threshold` is the one at the start."""

    prompt: str
    threshold: float | None
    max_new_tokens: int = 192
    problem: Problem | None = None
    limits: Limits = USUAL_LIMITS

    def __post_init__(self) -> None:
        """Raise ValueError with a sentence for the person."""
        object.__setattr__(self, "prompt", self.limits.check_prompt(self.prompt))
        object.__setattr__(self, "max_new_tokens", self.limits.check_length(self.max_new_tokens))


def compare(
    lanes: Sequence[Lane],
    question: Question,
    live: LiveRun,
    device: Device,
) -> Iterator[Step]:
    """Run the lanes to their ends; steps for every pass, the first difference, verdicts, and the closing state.

    Raises:
        ValueError: before the first step, with a sentence, when the prompt does not fit a lane's context.
    """
    running = {lane.key: _start(lane, question, live, device) for lane in lanes}
    by_key = {lane.key: lane for lane in lanes}
    difference = FirstDifference(by_key)
    for event in race(running, lambda key: turn(by_key[key].checkpoint, device)):
        lane = by_key[event.lane]
        lane.shared = is_shared(running[event.lane])
        if isinstance(event, LanePass):
            yield _pass_step(lane, event, lanes, difference)
        else:
            yield _end_step(lane, event, difference)
        if live.stopped and any(lane.finish_reason is None for lane in lanes):
            yield Step(tuple(lane.end() for lane in lanes if lane.finish_reason is None))
            break
    if len(lanes) > 1 and not difference.tokens and all(lane.finish_reason == "stop" for lane in lanes):
        yield Step((stream.same(),))
    yield from _verdicts(lanes, question.problem)
    yield Step((_closing(lanes),))


def finished(identity: str, question: Question, lanes: Sequence[Lane]) -> Run:
    """Everything the lanes have written so far, for keeping."""
    problem = question.problem
    asked = Asked(
        prompt=question.prompt,
        max_new_tokens=question.max_new_tokens,
        task=problem.task if problem else None,
        seed=problem.seed if problem else None,
    )
    return keep(identity, asked, lanes)


def _start(lane: Lane, question: Question, live: LiveRun, device: Device) -> Iterator[ForwardPass]:
    ids = prompt_ids(lane.checkpoint, question.prompt, question.max_new_tokens)
    lane.prompt_tokens = len(ids)
    lane.settings = DecodingSettings(
        block_size=lane.checkpoint.block_size or DecodingSettings().block_size,
        threshold=question.threshold,
        max_new_tokens=question.max_new_tokens,
        alternatives=ALTERNATIVES,
    )
    control = live.one_token if lane.decoder == "autoregressive" else live.steered
    return start(lane.checkpoint, lane.decoder, ids, lane.settings, control, device.places)


def _pass_step(lane: Lane, event: LanePass, lanes: Sequence[Lane], difference: FirstDifference) -> Step:
    message, pieces = lane.add(event.record)
    messages = [message]
    if difference.add(lane.key, pieces) and difference.tokens:
        messages.append(stream.difference(difference.tokens))
    ratio = _speed_up(lanes)
    if ratio is not None:
        messages.append(stream.speed_up(ratio))
    seconds = event.record.seconds
    return Step(tuple(messages), pass_seconds=seconds, began_seconds=event.clock_seconds - seconds)


def _end_step(lane: Lane, event: LaneEnd, difference: FirstDifference) -> Step:
    messages = [lane.end()]
    if lane.finish_reason == "stop" and difference.end(event.lane) and difference.tokens:
        messages.append(stream.difference(difference.tokens))
    return Step(tuple(messages))


def _speed_up(lanes: Sequence[Lane]) -> float | None:
    speeds = {lane.key: lane.tally.tokens_per_second for lane in lanes}
    slow, fast = speeds.get("ar"), speeds.get("mars")
    return fast / slow if slow and fast else None


def _verdicts(lanes: Sequence[Lane], problem: Problem | None) -> Iterator[Step]:
    for lane in lanes:
        if problem is not None and lane.finish_reason != "cancelled":
            lane.right = problems.is_right(problem, lane.text)
            yield Step((stream.verdict(lane.key, lane.right),))


def _closing(lanes: Sequence[Lane]) -> stream.Message:
    wrote = " ".join(
        f"{lane.title}: {_count(lane.tally.tokens, 'token')} in {_count(lane.tally.passes, 'pass', 'passes')}."
        for lane in lanes
    )
    cancelled = any(lane.finish_reason == "cancelled" for lane in lanes)
    return stream.state("stopped", f"Stopped. {wrote}") if cancelled else stream.state("done", f"Done. {wrote}")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
