"""From a question to the value of the page's stage: wait for checkpoints and device, compare, keep the result."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from uuid import uuid4

from app.compare import lane_request, stream
from app.compare.comparison import Entry, Question, compare, enter, finished
from app.compare.event_stream import EventStreams
from app.compare.lane import Lane
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.compare.pace import Step, frames
from app.models.manager import ModelError, Models
from app.models.sentences import complete, failure, without_paths
from app.runs.run import Run
from app.scheduling.admission import AdmissionQueue, BusyError
from app.scheduling.limits import USUAL_LIMITS, Limits
from app.scheduling.sessions import LiveRun, Sessions
from mars.config import DEFAULT_THRESHOLD

POLL_SECONDS = 0.25
READY = "Choose an example or write a prompt, then press Run."
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Picture:
    """The stage's value so far, whether the run goes on, and the run once it is over.

    The value is None where the page has fetched all of it.
    """

    value: str | None
    running: bool
    result: Run | None = None


class Runner:
    """Runs comparisons for any number of sessions on one device."""

    def __init__(
        self, models: Models, queue: AdmissionQueue, sessions: Sessions, limits: Limits = USUAL_LIMITS
    ) -> None:
        self.models = models
        self.sessions = sessions
        self.limits = limits
        self.event_streams = EventStreams()
        self._queue = queue

    @property
    def most_runs(self) -> int:
        """How many runs there can be, those that wait included."""
        return self._queue.most_runs

    @property
    def queue(self) -> AdmissionQueue:
        """What the runs share."""
        return self._queue

    def load(self) -> dict[str, int]:
        """How many runs are active, wait, and may be active at once."""
        return self._queue.counts()

    def introduce(self, lanes: Sequence[LaneChoice], threshold: float | None = DEFAULT_THRESHOLD) -> Iterator[str]:
        """Values of the idle stage: at once while the chosen checkpoints load, then again when they are there.

        `threshold` is where the slider stands.
        """
        value = _value(
            stream.opening(uuid4().hex, [request.card(threshold) for request in lane_request.requested(lanes)])
        )
        try:
            for sentence in self._loaded(lane_request.checkpoint_names(lanes)):
                if sentence:
                    value += _value(self._waiting(lanes), stream.state("loading", sentence))
                    yield value
            with ExitStack() as stack:
                cards = [
                    request.card(threshold) for request in lane_request.with_checkpoints(lanes, self.models, stack)
                ]
        except ModelError as error:
            yield value + _value(stream.state("failed", str(error)))
            return
        problem = _problem(cards)
        state = stream.state("failed", problem) if problem else stream.state("idle", READY)
        yield _value(stream.opening(uuid4().hex, cards), state)

    def run(
        self, session: str, question: Question, lanes: Sequence[LaneChoice], passes_per_second: float
    ) -> Iterator[Picture]:
        """Pictures of one comparison, from the queue to the closing state; the last one is not running.

        While the page fetches its lines (`event_streams`), there are none in between.
        """
        identity, ran = uuid4().hex, list[Lane]()
        try:
            live = LiveRun(self._queue.join(), question.threshold, passes_per_second)
        except BusyError as error:
            yield Picture(stream.line(stream.refusal(identity, str(error))), running=False)
            return
        self.sessions.begin(session, live)
        event_stream = self.event_streams.open(identity, live)
        try:
            for text in frames(self._steps(identity, question, lanes, live, ran), live):
                event_stream.put(text)
                if not event_stream.followed:
                    yield Picture(event_stream.text, running=True)
            live.ticket.leave()
            result = self._result(identity, question, ran)
            yield Picture(None if event_stream.emptied() else event_stream.text, running=False, result=result)
        finally:
            self.event_streams.close(event_stream)
            self.sessions.end(session, live)

    def _result(self, identity: str, question: Question, ran: list[Lane]) -> Run | None:
        return finished(identity, question, ran) if any(lane.records for lane in ran) else None

    def _steps(
        self, identity: str, question: Question, lanes: Sequence[LaneChoice], live: LiveRun, ran: list[Lane]
    ) -> Iterator[Step]:
        try:
            requests = lane_request.requested(lanes)
            cards = [request.card(live.threshold, question.earlier.get(request.key, ())) for request in requests]
            yield Step((stream.opening(identity, cards, live=True),))
            for told in self.ready(lane_request.checkpoint_names(lanes), live):
                loading = told is not None and told["state"] == "loading"
                yield Step((*([self._waiting(lanes)] if loading else []), *([told] if told else [])))
            if live.stopped:
                yield Step((stream.state("stopped", "Stopped before the first pass."),))
            else:
                yield from self._race(identity, question, lanes, live, ran)
        except ValueError as error:
            yield Step((stream.state("failed", without_paths(complete(str(error)))),))
        except Exception as error:  # noqa: BLE001 - whatever it was, the page says so and lives on
            _log.exception("a run failed")
            yield Step((stream.state("failed", failure(error)),))

    def _race(
        self, identity: str, question: Question, lanes: Sequence[LaneChoice], live: LiveRun, ran: list[Lane]
    ) -> Iterator[Step]:
        with ExitStack() as stack:
            entries, cards = self._entered(lane_request.with_checkpoints(lanes, self.models, stack), question, live)
            yield Step((stream.opening(identity, cards, live=True),))
            if not entries:
                raise ModelError(_problem(cards))
            ran.extend(entry.lane for entry in entries)
            yield Step((stream.state("running", _running(cards)),))
            yield from compare(entries, question, live, self._queue)

    def _entered(
        self, requests: Sequence[LaneRequest], question: Question, live: LiveRun
    ) -> tuple[list[Entry], list[stream.Card]]:
        """The lanes that can write, and how all of them introduce themselves."""
        entries, cards = list[Entry](), list[stream.Card]()
        taken = Counter[str]()  # lanes so far, by checkpoint
        for request in requests:
            problem, name = request.problem, request.choice.checkpoint
            try:
                if not problem:
                    entries.append(enter(request, question, live, self._queue, taken[name]))
                    taken[name] += 1
            except ValueError as error:
                problem = without_paths(complete(str(error)))
            turns = question.earlier.get(request.key, ())
            cards.append(replace(request, problem=problem).card(live.threshold, turns))
        return entries, cards

    def ready(self, names: Iterable[str], live: LiveRun) -> Iterator[stream.Status | None]:
        """Wait for the place of `live` and for checkpoints: a new state whenever there is one, else None at times."""
        position = -1
        while not live.ticket.wait(POLL_SECONDS) and not live.stopped:
            told = None
            if live.ticket.position not in (position, 0):
                position = live.ticket.position
                ahead = "1 run is" if position == 1 else f"{position} runs are"
                told = stream.state("queued", f"Waiting for the device: {ahead} ahead of yours.")
            yield told
        for sentence in self._loaded(names, again=True, stopped=lambda: live.stopped):
            yield stream.state("loading", sentence) if sentence else None

    def _loaded(
        self, names: Iterable[str], again: bool = False, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[str]:
        """Wait until all are loaded or have failed: now and then a sentence, empty when there is nothing new to say."""
        for name in names:
            self.models.request(name, again)
        for name in names:
            told = ""
            while not self.models.wait(name, POLL_SECONDS if told else 0.0) and not stopped():
                sentence = self.models.progress(name)
                yield sentence if sentence != told else ""
                told = sentence

    def _waiting(self, lanes: Sequence[LaneChoice]) -> stream.Waiting:
        """What each lane waits for, and how far that is."""
        found = dict[str, str | None]()
        for request in lane_request.requested(lanes):
            late = [name for name in request.choice.checkpoints if not self.models.wait(name, 0.0)]
            found[request.key] = self.models.progress(late[0]) if late else None
        return stream.waiting(found)


def _problem(cards: list[stream.Card]) -> str:
    """Why the first lane that cannot write cannot, or nothing."""
    return next((f"{card['title']} cannot write: {card['problem']}" for card in cards if card["problem"]), "")


def _running(cards: list[stream.Card]) -> str:
    *others, last = [card["title"] for card in cards if not card["problem"]]
    return f"{', '.join(others)} and {last} write side by side." if others else f"{last} writes alone."


def _value(*messages: stream.Message) -> str:
    return "".join(map(stream.line, messages))
