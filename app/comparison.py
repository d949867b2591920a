"""A comparison: the lanes race over one prompt, and every pass becomes a step for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app import problems, stream
from app.device import Device
from app.difference import Differences
from app.entrants import Entrant
from app.lane import MOST_ALTERNATIVES, Lane, baseline_of
from app.limits import USUAL_LIMITS, Limits
from app.pace import Step
from app.race import LaneEnd, LanePass, race
from app.runs.keeping import keep
from app.runs.run import Asked, Run
from app.sessions import LiveRun
from app.starting import is_shared, prompt_ids, start, turn
from mars.records import ForwardPass
from mars.tasks import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person asks for, within `limits`; `threshold` is where the slider stands at the start."""

    prompt: str
    threshold: float | None
    max_new_tokens: int = 192
    problem: Problem | None = None
    limits: Limits = USUAL_LIMITS

    def __post_init__(self) -> None:
        """Raise ValueError with a sentence for the person."""
        object.__setattr__(self, "prompt", self.limits.check_prompt(self.prompt))
        object.__setattr__(self, "max_new_tokens", self.limits.check_length(self.max_new_tokens))


@dataclass(slots=True)
class Entry:
    """A lane at its start: `records` come as they are asked for. `inactive` is what the page was told last."""

    entrant: Entrant
    lane: Lane
    records: Iterator[ForwardPass]
    inactive: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.inactive = self.entrant.inactive(self.lane.settings.threshold)

    def news(self, threshold: float | None) -> Iterator[stream.Message]:
        """A message where the threshold of a pass changes whether the lane writes several tokens at once."""
        sentence = self.entrant.inactive(threshold)
        if sentence != self.inactive:
            self.inactive = sentence
            yield stream.inactive(self.lane.key, sentence)


def enter(entrant: Entrant, question: Question, live: LiveRun, device: Device, number: int = 0) -> Entry:
    """Let a lane whose checkpoint is there take part; `number` counts those on the same checkpoint.

    Raises:
        ValueError: one sentence: the prompt does not fit its context, or its decoder cannot run so.
    """
    checkpoint, choice = entrant.checkpoint, entrant.choice
    if checkpoint is None:
        raise ValueError(entrant.problem or f"The checkpoint of {entrant.title} is not loaded.")
    ids = prompt_ids(checkpoint, question.prompt, question.max_new_tokens)
    settings = entrant.settings(live.threshold, question.max_new_tokens, MOST_ALTERNATIVES)
    control = live.following() if choice.steered else live.control(settings.threshold, settings.score)
    lane = Lane(entrant.key, entrant.title, choice.decoder, checkpoint, settings=settings, prompt_tokens=len(ids))
    return Entry(entrant, lane, start(checkpoint, choice.decoder, ids, settings, control, device.places, number))


def compare(entries: Sequence[Entry], question: Question, live: LiveRun, device: Device) -> Iterator[Step]:
    """Run the lanes to their ends; steps for every pass, the first differences, verdicts, and the closing state."""
    lanes = [entry.lane for entry in entries]
    by_key = {entry.lane.key: entry for entry in entries}
    baseline = baseline_of(lanes)
    differences = Differences(baseline.key, [lane.key for lane in lanes if lane is not baseline])
    running = {entry.lane.key: entry.records for entry in entries}
    for event in race(running, lambda key: turn(by_key[key].lane.checkpoint, device)):
        entry = by_key[event.lane]
        entry.lane.shared = is_shared(entry.records)
        if isinstance(event, LanePass):
            yield _pass_step(entry, event, lanes, differences)
        else:
            yield _end_step(entry.lane, event, baseline, differences)
        if live.stopped and any(lane.finish_reason is None for lane in lanes):
            yield Step(tuple(lane.end() for lane in lanes if lane.finish_reason is None))
            break
    alike = differences.same(lane.key for lane in lanes if lane.finish_reason == "stop")
    yield Step(tuple(stream.same((baseline.key, other)) for other in alike))
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


def _pass_step(entry: Entry, event: LanePass, lanes: Sequence[Lane], differences: Differences) -> Step:
    lane, record = entry.lane, event.record
    message, pieces = lane.add(record)
    messages = [message]
    if pieces:
        messages += entry.news(record.rows[0].threshold)
    baseline = baseline_of(lanes)
    messages += [stream.difference(tokens, baseline.key) for tokens in differences.add(lane.key, pieces)]
    ratios = _speed_ups(lanes, baseline)
    if ratios:
        messages.append(stream.speed_up(ratios, baseline.key))
    return Step(tuple(messages), pass_seconds=record.seconds, began_seconds=event.clock_seconds - record.seconds)


def _end_step(lane: Lane, event: LaneEnd, baseline: Lane, differences: Differences) -> Step:
    messages = [lane.end()]
    if lane.finish_reason == "stop":
        messages += [stream.difference(tokens, baseline.key) for tokens in differences.end(event.lane)]
    return Step(tuple(messages))


def _speed_ups(lanes: Sequence[Lane], baseline: Lane) -> dict[str, float]:
    """Of the lanes that have written something, over a baseline that has."""
    slow = baseline.tally.tokens_per_second
    fast = {lane.key: lane.tally.tokens_per_second for lane in lanes if lane is not baseline}
    return {key: speed / slow for key, speed in fast.items() if speed and slow}


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
