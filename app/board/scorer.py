"""From a plan to the value of the page's score board: wait for device and checkpoints, then let the lanes write."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from app.board import messages, scoring
from app.board.lane import BoardLane
from app.board.plan import BATCH, Plan
from app.board.standing import baseline_of
from app.compare import lane_request, stream
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.compare.pace import Step, frames
from app.compare.runner import Runner
from app.models.sentences import complete, failure, without_paths
from app.scheduling.admission import BusyError
from app.scheduling.sessions import LiveRun
from mars.tasks import Problem

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class View:
    """The board's value so far, and whether it goes on."""

    value: str
    running: bool


class Scorer:
    """Fills score boards for any number of sessions, with the places, turns and checkpoints of `runner`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def score(self, session: str, plan: Plan, choices: Sequence[LaneChoice], threshold: float | None) -> Iterator[View]:
        """Views of one board, from the queue to the closing state; the last one is not running.

        It is the live run of `session`: the slider, which stands at `threshold`, acts on the lanes that follow it, and
        what the session ran before is stopped.
        """
        identity, value = uuid4().hex, ""
        try:
            live = LiveRun(self._runner.queue.join(), threshold)
        except BusyError as error:
            yield View(stream.line(stream.refusal(identity, str(error))), running=False)
            return
        self._runner.sessions.begin(session, live)
        try:
            for text in frames(self._steps(identity, plan, choices, live), live):
                value += text
                yield View(value, running=True)
            yield View(value, running=False)
        finally:
            self._runner.sessions.end(session, live)

    def _steps(self, identity: str, plan: Plan, choices: Sequence[LaneChoice], live: LiveRun) -> Iterator[Step]:
        asked, date = plan.problems, datetime.now(UTC).isoformat(timespec="seconds")
        try:
            cards = [request.card(live.threshold) for request in lane_request.requested(choices)]
            yield Step((messages.opening(identity, date, plan, asked, cards),))
            for told in self._runner.ready(lane_request.checkpoint_names(choices), live):
                yield Step((told,) if told else ())
            if live.stopped:
                yield _NEVER_BEGAN
                return
            with ExitStack() as stack:
                requests = lane_request.with_checkpoints(choices, self._runner.models, stack)
                yield from self._write(plan, asked, requests, live)
        except ValueError as error:
            yield _failed(_sentence(error))
        except Exception as error:  # noqa: BLE001 - whatever it was, the page says so and lives on
            _log.exception("a score board failed")
            yield _failed(failure(error))

    def _write(
        self, plan: Plan, asked: Sequence[Problem], requests: list[LaneRequest], live: LiveRun
    ) -> Iterator[Step]:
        lanes = list[BoardLane]()
        for place, request in enumerate(requests):
            if live.stopped:
                break
            yield Step((stream.state("loading", f"{request.title} warms up."),))
            try:
                lane = BoardLane.of(request, live, plan.max_new_tokens)
                scoring.warm_up(lane, asked, live, self._runner.queue)
                lanes.append(lane)
            except ValueError as error:
                requests[place] = replace(request, problem=_sentence(error))
        if live.stopped:
            yield _NEVER_BEGAN
            return
        baseline = baseline_of(lanes) if lanes else None
        cards = [request.card(live.threshold) for request in requests]
        yield Step((messages.met(cards, baseline.key if baseline else None),))
        if baseline is None:
            yield _failed(f"No lane can write. {requests[0].title}: {requests[0].problem}")
            return
        yield Step((stream.state("running", _running(lanes, plan)),))
        yield from scoring.score(lanes, baseline, asked, live, self._runner.queue)


_NEVER_BEGAN = Step((stream.state("stopped", "Stopped before the first pass."),))


def _running(lanes: Sequence[BoardLane], plan: Plan) -> str:
    who = "The lanes write" if len(lanes) > 1 else f"{lanes[0].title} writes"
    return f"{who} {plan.count} problems, {BATCH} at a time."


def _failed(sentence: str) -> Step:
    return Step((stream.state("failed", sentence),))


def _sentence(error: ValueError) -> str:
    return without_paths(complete(str(error)))
