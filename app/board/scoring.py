"""Runs a score board: the lanes answer one problem after another, each as in a run of Compare."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from app.board import messages
from app.board.messages import BoardLane, Plan, standing
from app.compare import lane_request, stream
from app.compare.comparison import Entry, Question
from app.compare.event_stream import Step
from app.compare.lane import baseline_of
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.compare.runner import Runner, cannot_write
from app.compare.starting import device_lock, prompt_ids, race
from app.models.sentences import error_sentence
from app.scheduling import AdmissionQueue, LiveRun
from mars_tasks import Problem


def start(runner: Runner, session: str, plan: Plan, choices: Sequence[LaneChoice], threshold: float | None) -> str:
    """Start one board in a thread as the run of `session` and return its identity; ValueError if the queue is full."""
    live = LiveRun(runner.queue.join(), threshold)
    most = plan.max_new_tokens * len(choices) * plan.count
    return runner.begin(session, live, partial(_steps, plan=plan, choices=choices), most)


def _steps(runner: Runner, _: str, live: LiveRun, plan: Plan, choices: Sequence[LaneChoice]) -> Iterator[Step]:
    problems = plan.problems
    cards = [request.card() for request in lane_request.requested(choices)]
    yield Step((messages.opening(plan, problems, cards),))
    if not (yield from runner.prepared(choices, live)):
        return
    lanes = dict[str, BoardLane]()
    requests = [
        _fitting(request, problems, plan.max_new_tokens)
        for request in lane_request.with_checkpoints(choices, runner.models)
    ]
    for number, problem in enumerate(problems):
        question = Question(
            prompt=problem.prompt, threshold=None, max_new_tokens=plan.max_new_tokens, limits=plan.limits
        )
        entries, cards = runner.entered(requests, question, live)
        if not number:
            lanes = {entry.lane.key: BoardLane(entry.request, entry.lane.settings.threshold) for entry in entries}
            key = baseline_of([*lanes.values()]).request.key if lanes else None
            yield Step((messages.LanesLoaded(kind="met", lanes=cards, baseline=key),))
            if key is None:
                raise ValueError(cannot_write(cards))
            baseline = lanes[key]
            yield Step((stream.state("running", f"The lanes solve {plan.count} problems."),))
        yield Step((messages.ProblemBegun(kind="writing", problem=number),))
        for entry in _finished(entries, live, runner.queue):
            answer = lanes[entry.lane.key].add(number, problem, entry.lane)
            rows = (standing(lane, baseline) for lane in lanes.values())
            yield Step((answer, *rows))
        if live.stopped:
            break
    yield Step((_closing([*lanes.values()], live),))


def _fitting(request: LaneRequest, problems: Sequence[Problem], most: int) -> LaneRequest:
    """The request; with a sentence as its problem if one of the prompts does not fit its context."""
    if request.problem or request.checkpoint is None:
        return request
    try:
        for problem in problems:
            prompt_ids(request.checkpoint, problem.prompt, most)
    except ValueError as error:
        return replace(request, problem=error_sentence(error))
    return request


def _finished(entries: Sequence[Entry], live: LiveRun, queue: AdmissionQueue) -> Iterator[Entry]:
    """Each lane when it has finished its answer; none after the run was stopped."""
    by_key = {entry.lane.key: entry for entry in entries}
    running = {entry.lane.key: entry.records for entry in entries}
    for lane, record, _ in race(running, lambda key: device_lock(by_key[key].lane.checkpoint, queue)):
        entry = by_key[lane]
        if record is not None:
            entry.lane.add(record)
        elif entry.lane.finish_reason not in (None, "cancelled"):
            entry.lane.end()
            yield entry
        if live.stopped:
            return


def _closing(lanes: Sequence[BoardLane], live: LiveRun) -> stream.Status:
    told = " ".join(f"{lane.request.title}: {_result(lane)}." for lane in lanes)
    return stream.state("stopped", f"{live.reason} {told}") if live.stopped else stream.state("done", f"Done. {told}")


def _result(lane: BoardLane) -> str:
    return f"{lane.right} of {len(lane.answers)} right" if lane.answers else "no answer was finished"
