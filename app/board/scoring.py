"""Runs a score board batch by batch: no lane begins the next batch before all have finished this one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from app.board import messages
from app.board.lane import BATCH, BoardLane, Plan, batches
from app.board.messages import standing
from app.compare import lane_request, stream
from app.compare.event_stream import Step
from app.compare.lane import baseline_of
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.compare.runner import NEVER_BEGAN, Runner
from app.compare.starting import LanePass, device_lock, race
from app.models.sentences import error_sentence
from app.scheduling import AdmissionQueue, LiveRun
from mars_tasks import Problem

MESSAGE_SECONDS = 1.0


def start(runner: Runner, session: str, plan: Plan, choices: Sequence[LaneChoice], threshold: float | None) -> str:
    """Start one board in a thread and return its identity; BusyError if the queue is full.

    It becomes the live run of `session` and stops the one before. The slider, which stands at `threshold`, acts on the
    lanes that follow it.
    """
    live = LiveRun(runner.queue.join(), threshold)
    most = plan.max_new_tokens * len(choices) * -(-plan.count // BATCH)
    return runner.begin(session, live, partial(_steps, plan=plan, choices=choices), most)


def _steps(runner: Runner, identity: str, live: LiveRun, plan: Plan, choices: Sequence[LaneChoice]) -> Iterator[Step]:
    problems, date = plan.problems, datetime.now(UTC).isoformat(timespec="seconds")
    cards = [request.card(live.slider.threshold) for request in lane_request.requested(choices)]
    yield Step((messages.opening(identity, date, plan, problems, cards),))
    if not (yield from runner.prepared(choices, live)):
        return
    with ExitStack() as stack:
        requests = lane_request.with_checkpoints(choices, runner.models, stack)
        yield from _warmed_up(runner, plan, problems, requests, live)


def _warmed_up(
    runner: Runner, plan: Plan, problems: Sequence[Problem], requests: list[LaneRequest], live: LiveRun
) -> Iterator[Step]:
    lanes = list[BoardLane]()
    for place, request in enumerate(requests):
        if live.stopped:
            break
        yield Step((stream.state("loading", f"{request.title} warms up."),))
        try:
            lane = BoardLane.of(request, live, plan.max_new_tokens)
            warm_up(lane, problems, live, runner.queue)
            lanes.append(lane)
        except ValueError as error:
            requests[place] = replace(request, problem=error_sentence(error))
    if live.stopped:
        yield NEVER_BEGAN
        return
    baseline = baseline_of(lanes) if lanes else None
    cards = [request.card(live.slider.threshold) for request in requests]
    yield Step((messages.LanesLoaded(kind="met", lanes=cards, baseline=baseline.key if baseline else None),))
    if baseline is None:
        raise ValueError(f"No lane can write. {requests[0].title}: {requests[0].problem}")
    yield Step((stream.state("running", _running(lanes, plan)),))
    yield from score(lanes, baseline, problems, live, runner.queue)


def _running(lanes: Sequence[BoardLane], plan: Plan) -> str:
    who = "The lanes solve" if len(lanes) > 1 else f"{lanes[0].title} solves"
    return f"{who} {plan.count} problems, {BATCH} at a time."


def score(
    lanes: Sequence[BoardLane],
    baseline: BoardLane,
    problems: Sequence[Problem],
    live: LiveRun,
    queue: AdmissionQueue,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Step]:
    """Run `lanes` until all problems are answered or `live` is stopped; yields steps, the closing state last.

    Within a batch the lane with the least model time makes the next pass, as in a run. Other runs use the device
    between passes.
    """
    told = now()
    for batch in batches(problems):
        yield Step(tuple(messages.ProblemsBegun(kind="writing", lane=lane.key, problems=list(batch)) for lane in lanes))
        for lane, ended, over in _write(lanes, batch, queue):
            if ended or over or now() >= told + MESSAGE_SECONDS:
                told = now()
                wrote = (messages.wrote(lane.key, number, lane.outcomes[number]) for number in ended)
                yield Step((*wrote, *(standing(each, baseline) for each in lanes)))
            if live.stopped:
                break
        if live.stopped:
            break
    yield Step((*(standing(each, baseline) for each in lanes), _closing(lanes, live)))


def warm_up(lane: BoardLane, problems: Sequence[Problem], live: LiveRun, queue: AdmissionQueue) -> None:
    """See `BoardLane.warm_up`; gives up when `live` is stopped. ValueError if the lane cannot write these problems."""
    lane.check(problems)
    records = {lane.key: lane.warm_up(next(batches(problems)))}
    for _ in race(records, lambda _: device_lock(lane.checkpoint, queue)):
        if live.stopped:
            break


def _write(
    lanes: Sequence[BoardLane], batch: Mapping[int, Problem], queue: AdmissionQueue
) -> Iterator[tuple[BoardLane, list[int], bool]]:
    """For each pass: its lane, the problems that ended with it, and whether the lane has finished the batch."""
    by_key = {lane.key: lane for lane in lanes}
    running = {lane.key: lane.begin(batch) for lane in lanes}
    for event in race(running, lambda key: device_lock(by_key[key].checkpoint, queue)):
        lane = by_key[event.lane]
        if isinstance(event, LanePass):
            yield lane, lane.add(event.record), False
        else:
            lane.end()
            yield lane, [], True


def _closing(lanes: Sequence[BoardLane], live: LiveRun) -> stream.Status:
    told = " ".join(f"{lane.title}: {_result(lane)}." for lane in lanes)
    return stream.state("stopped", f"{live.reason} {told}") if live.stopped else stream.state("done", f"Done. {told}")


def _result(lane: BoardLane) -> str:
    return f"{lane.right} of {len(lane.outcomes)} right" if lane.outcomes else "no answer was finished"
