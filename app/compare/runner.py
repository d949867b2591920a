"""From a question to the lines that its page reads: wait for checkpoints and device, compare, keep the result."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from uuid import uuid4

from app.compare import lane_request, stream
from app.compare.comparison import Entry, Question, compare, enter, finished
from app.compare.event_stream import EventStream, EventStreams, Step
from app.compare.lane import Lane
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.models.manager import Models
from app.models.sentences import error_sentence, failure
from app.runs.run import Run
from app.scheduling import USUAL_LIMITS, AdmissionQueue, Limits, LiveRun, Sessions

POLL_SECONDS = 0.25
RESULT_SECONDS = 10.0
_log = logging.getLogger(__name__)

Write = Callable[["Runner", str, LiveRun], Iterator[Step]]
"""The steps of a run of this identity."""
Keep = Callable[[str], Run | None]


class Runner:
    """Runs comparisons for any number of sessions on one device, each in a thread that writes an event stream."""

    elsewhere = False
    """Whether another process has the device and the models (mars_site/zerogpu.py)."""

    def __init__(
        self, models: Models, queue: AdmissionQueue, sessions: Sessions, limits: Limits = USUAL_LIMITS
    ) -> None:
        self.models = models
        self.queue = queue
        self.sessions = sessions
        self.limits = limits
        self.event_streams = EventStreams()

    def introduce(self, lanes: Sequence[LaneChoice]) -> str:
        """The idle stage while the chosen checkpoints load; ModelError if there is no such checkpoint."""
        requests, names = lane_request.requested(lanes), lane_request.checkpoint_names(lanes)
        if not self.elsewhere:
            for name in names:
                self.models.request(name)
            if all(self.models.wait(name, POLL_SECONDS) for name in names):
                requests = lane_request.with_checkpoints(lanes, self.models)
        cards = [request.card() for request in requests]
        problem = cannot_write(cards)
        ready = stream.state("idle", "Choose an example or write a prompt, then press Run.")
        state = stream.state("failed", problem) if problem else ready
        return stream.lines((stream.Opening(kind="open", id=uuid4().hex, lanes=cards), state))

    def start(self, session: str, question: Question, lanes: Sequence[LaneChoice], passes_per_second: float) -> str:
        """Start one comparison in a thread and return its identity; ValueError if the queue is full."""
        live, ran = LiveRun(self.queue.join(), question.threshold, passes_per_second), list[Lane]()
        write = partial(Runner._steps, question=question, lanes=lanes, ran=ran)
        most = question.max_new_tokens * len(lanes)
        return self.begin(session, live, write, most, partial(finished, question=question, lanes=ran))

    def begin(self, session: str, live: LiveRun, write: Write, most_passes: int, keep: Keep | None = None) -> str:
        """Make `live` the run of `session` and write its steps in a thread; returns the identity of its event stream.

        It stops when no page follows for a while. If it fails, the last step says why. `keep` makes its finished run.
        The thread has the context of the caller: on ZeroGPU that is the visitor whose quota the `most_passes` cost.
        """
        self.sessions.begin(session, live)
        event_stream = self.event_streams.open(uuid4().hex, session, live)
        steps = write(self, event_stream.identity, live)
        work = partial(copy_context().run, self._write, event_stream, steps, keep)
        threading.Thread(target=work, name="run", daemon=True).start()
        return event_stream.identity

    def result(self, session: str, identity: str) -> Run | None:
        """The finished run of this session under this identity; None if it had no pass."""
        event_stream = self.event_streams.find(identity)
        return event_stream.result(RESULT_SECONDS) if event_stream and event_stream.session == session else None

    def _write(self, event_stream: EventStream, steps: Iterator[Step], keep: Keep | None) -> None:
        result = None
        try:
            event_stream.write(explained(steps))
            event_stream.live.ticket.leave()
            result = keep(event_stream.identity) if keep else None
        except Exception:  # noqa: BLE001 - the page has read all lines; it gets no document
            _log.exception("a run could not be kept")
        finally:
            self.sessions.end(event_stream.session, event_stream.live)
            event_stream.close(result)

    def _steps(
        self, identity: str, live: LiveRun, question: Question, lanes: Sequence[LaneChoice], ran: list[Lane]
    ) -> Iterator[Step]:
        requests = lane_request.requested(lanes)
        cards = [_card(request, question) for request in requests]
        yield Step((stream.Opening(kind="open", id=identity, lanes=cards),))
        if not (yield from self.prepared(lanes, live)):
            return
        entries, cards = self.entered(lane_request.with_checkpoints(lanes, self.models), question, live)
        yield Step((stream.Opening(kind="open", id=identity, lanes=cards),))
        if not entries:
            raise ValueError(cannot_write(cards))
        ran.extend(entry.lane for entry in entries)
        yield Step((stream.state("running", _running(cards)),))
        yield from compare(entries, question, live, self.queue)

    def entered(
        self, requests: Sequence[LaneRequest], question: Question, live: LiveRun
    ) -> tuple[list[Entry], list[stream.Card]]:
        """The lanes that can write, and the cards of all lanes."""
        entries, cards = list[Entry](), list[stream.Card]()
        taken = Counter[str]()  # lanes so far, by checkpoint
        for request in requests:
            problem, name = request.problem, request.choice.checkpoint
            try:
                if not problem:
                    entries.append(enter(request, question, live, self.queue, taken[name]))
                    taken[name] += 1
            except ValueError as error:
                problem = error_sentence(error)
            cards.append(_card(replace(request, problem=problem), question))
        return entries, cards

    def ready(self, names: Sequence[str], live: LiveRun) -> Iterator[stream.Status | None]:
        """Wait for a place in the queue and for checkpoints; yields each new state, and None from time to time."""
        last = 0
        while (position := live.ticket.position(POLL_SECONDS)) and not live.stopped:
            ahead = "1 run is" if position == 1 else f"{position} runs are"
            sentence = f"Waiting for the device: {ahead} ahead of yours."
            yield stream.state("queued", sentence) if position != last else None
            last = position
        for name in () if live.stopped else names:
            self.models.request(name, again=True)
        for name in names:
            sentence = ""
            while not self.models.wait(name, POLL_SECONDS if sentence else 0.0) and not live.stopped:
                before, sentence = sentence, self.models.progress(name)
                yield stream.state("loading", sentence) if sentence != before else None

    def prepared(self, choices: Sequence[LaneChoice], live: LiveRun) -> Generator[Step, None, bool]:
        """The steps of `ready` for these lanes; returns whether nobody has stopped the run meanwhile."""
        for told in self.ready(lane_request.checkpoint_names(choices), live):
            yield Step((told,) if told else ())
        if live.stopped:
            yield Step((stream.state("stopped", "Stopped before the first pass."),))
        return not live.stopped


def _card(request: LaneRequest, question: Question) -> stream.Card:
    return request.card(question.earlier.get(request.key, ()), question.answer_prefix)


def explained(steps: Iterator[Step]) -> Iterator[Step]:
    """The steps; after an error, a last step that says why."""
    try:
        yield from steps
    except ValueError as error:
        yield Step((stream.state("failed", error_sentence(error)),))
    except Exception as error:  # noqa: BLE001 - whatever it was, the page says so and lives on
        _log.exception("a run failed")
        yield Step((stream.state("failed", failure(error)),))


def cannot_write(cards: Sequence[stream.Card]) -> str:
    """A sentence about the first lane that cannot write, with the reason; empty if all can."""
    return next((f"{card['title']} cannot write: {card['problem']}" for card in cards if card["problem"]), "")


def _running(cards: list[stream.Card]) -> str:
    *others, last = [card["title"] for card in cards if not card["problem"]]
    return f"{', '.join(others)} and {last} write side by side." if others else f"{last} writes alone."
