"""The lanes answer all problems batch by batch: no lane begins the next batch before all have finished this one."""

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
    """Run `lanes` until all problems are answered or `live` is stopped; yields steps, the closing state last.

    Within a batch the lane with the least model time makes the next pass, as in a run. Other runs use the device
    between passes.
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


def _wrote(lane: BoardLane, ended: Sequence[int]) -> Iterator[messages.ProblemDone]:
    for number in ended:
        yield messages.wrote(lane.key, number, lane.outcomes[number])


def _closing(lanes: Sequence[BoardLane], stopped: bool) -> stream.Status:
    told = " ".join(f"{lane.title}: {_result(lane)}." for lane in lanes)
    return stream.state("stopped", f"Stopped. {told}") if stopped else stream.state("done", f"Done. {told}")


def _result(lane: BoardLane) -> str:
    return f"{lane.right} of {len(lane.outcomes)} right" if lane.outcomes else "no answer was finished"
