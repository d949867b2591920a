"""From a plan to the lines that a score board reads: wait for device and checkpoints, then let the lanes write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

from app.board import messages, scoring
from app.board.lane import BoardLane
from app.board.plan import BATCH, Plan
from app.compare import lane_request, stream
from app.compare.lane import baseline_of
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.compare.pace import Step
from app.compare.runner import NEVER_BEGAN, Runner
from app.models.sentences import error_sentence
from app.scheduling.sessions import LiveRun
from mars.tasks import Problem


class Scorer:
    """Fills score boards for any number of sessions; `runner` has the queue and the checkpoints."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def start(self, session: str, plan: Plan, choices: Sequence[LaneChoice], threshold: float | None) -> str:
        """Start one board in a thread; returns its identity, as `Runner.start` does for a run.

        It becomes the live run of `session` and stops the one before. The slider, which stands at `threshold`, acts on
        the lanes that follow it.

        Raises:
            BusyError: the queue is full.
        """

        def write(identity: str, live: LiveRun) -> Iterator[Step]:
            return self._steps(identity, plan, choices, live)

        return self._runner.begin(session, LiveRun(self._runner.queue.join(), threshold), write)

    def _steps(self, identity: str, plan: Plan, choices: Sequence[LaneChoice], live: LiveRun) -> Iterator[Step]:
        problems, date = plan.problems, datetime.now(UTC).isoformat(timespec="seconds")
        cards = [request.card(live.threshold) for request in lane_request.requested(choices)]
        yield Step((messages.opening(identity, date, plan, problems, cards),))
        for told in self._runner.ready(lane_request.checkpoint_names(choices), live):
            yield Step((told,) if told else ())
        if live.stopped:
            yield NEVER_BEGAN
            return
        with ExitStack() as stack:
            requests = lane_request.with_checkpoints(choices, self._runner.models, stack)
            yield from self._write(plan, problems, requests, live)

    def _write(
        self, plan: Plan, problems: Sequence[Problem], requests: list[LaneRequest], live: LiveRun
    ) -> Iterator[Step]:
        lanes = list[BoardLane]()
        for place, request in enumerate(requests):
            if live.stopped:
                break
            yield Step((stream.state("loading", f"{request.title} warms up."),))
            try:
                lane = BoardLane.of(request, live, plan.max_new_tokens)
                scoring.warm_up(lane, problems, live, self._runner.queue)
                lanes.append(lane)
            except ValueError as error:
                requests[place] = replace(request, problem=error_sentence(error))
        if live.stopped:
            yield NEVER_BEGAN
            return
        baseline = baseline_of(lanes) if lanes else None
        cards = [request.card(live.threshold) for request in requests]
        yield Step((messages.LanesLoaded(kind="met", lanes=cards, baseline=baseline.key if baseline else None),))
        if baseline is None:
            raise ValueError(f"No lane can write. {requests[0].title}: {requests[0].problem}")
        yield Step((stream.state("running", _running(lanes, plan)),))
        yield from scoring.score(lanes, baseline, problems, live, self._runner.queue)


def _running(lanes: Sequence[BoardLane], plan: Plan) -> str:
    who = "The lanes write" if len(lanes) > 1 else f"{lanes[0].title} writes"
    return f"{who} {plan.count} problems, {BATCH} at a time."
