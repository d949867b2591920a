"""A sweep of τ on one prompt: AR, and then the lane that follows the slider at five thresholds, one after another."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from app.compare import lane_request, stream
from app.compare.comparison import Question, enter
from app.compare.event_stream import Step
from app.compare.lane import Lane
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest, comparable
from app.compare.runner import Runner
from app.compare.starting import SHARED, is_shared, passes
from app.scheduling import FEWEST_TOKENS, LiveRun
from mars.decoders import BASELINE
from mars.schema import StrictDict

THRESHOLDS = (0.99, 0.95, 0.9, 0.7, 0.5)


class SweepOpening(StrictDict):
    """The first message: the lane whose τ is swept, with its checkpoint."""

    kind: Literal["open"]
    title: str
    checkpoint: str


class Swept(StrictDict):
    """A finished text. `threshold` is None for AR.

    `speed` is that over AR (`Lane.speed_over`), None for AR and for a model of another size.
    """

    kind: Literal["swept"]
    threshold: float | None
    tokens: int
    tokensPerForward: float
    seconds: float
    speed: float | None
    text: str


Message = Annotated[SweepOpening | Swept | stream.Status | stream.Refusal, Field(discriminator="kind")]
"""Whatever a sweep tells its page."""


def start(runner: Runner, session: str, question: Question, choices: Sequence[LaneChoice]) -> str:
    """Start a sweep in a thread, as the run of `session`, and return its identity; ValueError if that cannot be."""
    swept = next((choice for choice in choices if choice.steered), None)
    if swept is None:
        raise ValueError("No lane follows the slider. Set the threshold of a lane to “Slider” in Settings.")
    own = LaneChoice(checkpoint=swept.checkpoint, decoder=BASELINE)
    baseline = next((choice for choice in choices if choice.decoder == BASELINE), own)
    live = LiveRun(runner.queue.join(), question.threshold)
    write = partial(_steps, question=question, choices=[baseline, swept])
    return runner.begin(session, live, write, question.max_new_tokens * (1 + len(THRESHOLDS)))


def _steps(runner: Runner, _: str, live: LiveRun, question: Question, choices: Sequence[LaneChoice]) -> Iterator[Step]:
    swept = lane_request.requested(choices)[1]
    yield Step((SweepOpening(kind="open", title=swept.title, checkpoint=swept.choice.checkpoint),))
    if not (yield from runner.prepared(choices, live)):
        return
    baseline, swept = lane_request.with_checkpoints(choices, runner.models)
    fixed = [replace(swept.choice, follows=False, threshold=threshold) for threshold in THRESHOLDS]
    requests = [baseline, *(replace(swept, choice=choice) for choice in fixed)]
    lanes = list[Lane]()
    for request in requests[:2]:  # slow first calls count nowhere
        _write(runner, request, replace(question, max_new_tokens=FEWEST_TOKENS), live)
    for number, request in enumerate(requests, 1):
        name = f"τ = {request.choice.threshold}" if lanes else "AR"
        yield Step((stream.state("running", f"{name} writes: {number} of {len(requests)}."),))
        lane = _write(runner, request, question, live)
        if lane.finish_reason == "cancelled":
            break
        lanes.append(lane)
        yield Step((row(lane, lanes[0]),))
    shared = SHARED if any(lane.shared for lane in lanes) else ""
    yield Step((stream.state("stopped", live.reason) if live.stopped else stream.state("done", f"Done.{shared}"),))


def _write(runner: Runner, request: LaneRequest, question: Question, live: LiveRun) -> Lane:
    entry = enter(request, question, live, runner.queue)
    for _ in passes(entry.lane, entry.records, runner.queue):
        pass
    entry.lane.shared = is_shared(entry.records)
    entry.lane.end()
    return entry.lane


def row(lane: Lane, baseline: Lane) -> Swept:
    """The figures of a finished lane beside those of AR."""
    tally, other = lane.tally, baseline is not lane
    same = comparable(lane.checkpoint, baseline.checkpoint)
    return {
        "kind": "swept",
        "threshold": lane.settings.threshold if other else None,
        "tokens": tally.tokens,
        "tokensPerForward": round(tally.tokens_per_forward, 4),
        "seconds": round(tally.seconds, 5),
        "speed": round(lane.speed_over(baseline), 4) if other and same else None,
        "text": lane.text,
    }
