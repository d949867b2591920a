"""The lanes write all problems, a few at a time: none begins the next ones before all are through with these."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from app.board import messages
from app.board.lane import BoardLane
from app.board.plan import batches
from app.board.standing import standing
from app.compare import stream
from app.compare.pace import Step
from app.compare.starting import device_lock
from app.scheduling.admission import AdmissionQueue
from app.scheduling.race import LanePass, race
from app.scheduling.sessions import LiveRun
from mars.tasks import Problem

NEWS_SECONDS = 1.0


def score(
    lanes: Sequence[BoardLane],
    baseline: BoardLane,
    problems: Sequence[Problem],
    live: LiveRun,
    queue: AdmissionQueue,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Step]:
    """Let `lanes` write until all problems are over or `live` is stopped; steps for the page, the closing state last.

    Within a batch the lanes advance by their model time, pass by pass, as in a run, and others take turns between.
    """
    told = now()
    for batch in batches(problems):
        yield Step(tuple(messages.ProblemsBegun(kind="writing", lane=lane.key, problems=list(batch)) for lane in lanes))
        for lane, ended, over in _write(lanes, batch, queue):
            if ended or over or now() >= told + NEWS_SECONDS:
                told = now()
                yield Step((*_wrote(lane, ended), *(standing(each, baseline) for each in lanes)))
            if live.stopped:
                break
        if live.stopped:
            break
    yield Step((*(standing(each, baseline) for each in lanes), _closing(lanes, live.stopped)))


def warm_up(lane: BoardLane, problems: Sequence[Problem], live: LiveRun, queue: AdmissionQueue) -> None:
    """See `BoardLane.warm_up`; gives up when `live` is stopped.

    Raises:
        ValueError: one sentence why this lane cannot write these problems.
    """
    lane.check(problems)
    records = {lane.key: lane.warm_up(next(batches(problems)))}
    for _ in race(records, lambda _: device_lock(lane.checkpoint, queue)):
        if live.stopped:
            break


def _write(
    lanes: Sequence[BoardLane], batch: Mapping[int, Problem], queue: AdmissionQueue
) -> Iterator[tuple[BoardLane, list[int], bool]]:
    """After each pass: whose it was, which problems ended with it, and whether the lane is through with the batch."""
    by_key = {lane.key: lane for lane in lanes}
    running = {lane.key: lane.begin(batch) for lane in lanes}
    for event in race(running, lambda key: device_lock(by_key[key].checkpoint, queue)):
        lane = by_key[event.lane]
        if isinstance(event, LanePass):
            yield lane, lane.add(event.record), False
        else:
            lane.end()
            yield lane, [], True


def _wrote(lane: BoardLane, ended: Sequence[int]) -> Iterator[messages.ProblemDone]:
    for number in ended:
        yield messages.wrote(lane.key, number, lane.outcomes[number])


def _closing(lanes: Sequence[BoardLane], stopped: bool) -> stream.Status:
    told = " ".join(f"{lane.title}: {_result(lane)}." for lane in lanes)
    return stream.state("stopped", f"Stopped. {told}") if stopped else stream.state("done", f"Done. {told}")


def _result(lane: BoardLane) -> str:
    return f"{lane.right} of {len(lane.outcomes)} right" if lane.outcomes else "no answer was finished"
