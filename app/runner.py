"""From a question to the value of the page's stage: wait for checkpoints and device, compare, keep the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import uuid4

from app import stream
from app.comparison import Question, compare, finished
from app.device import BusyError, Device
from app.lane import KINDS, Kind, Lane
from app.limits import USUAL_LIMITS, Limits
from app.models import ModelError, Models
from app.pace import Step, frames
from app.runs.run import Run
from app.sentences import complete, failure, without_paths
from app.sessions import LiveRun, Sessions

POLL_SECONDS = 0.25
READY = "Choose a problem or write a prompt, then press Run."
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Picture:
    """The stage's value so far, whether the run goes on, and the run once it is over."""

    value: str
    running: bool
    result: Run | None = None


class Runner:
    """Runs comparisons for any number of sessions on one device."""

    def __init__(self, models: Models, device: Device, sessions: Sessions, limits: Limits = USUAL_LIMITS) -> None:
        self.models = models
        self.sessions = sessions
        self.limits = limits
        self._device = device

    @property
    def most_runs(self) -> int:
        """How many runs there can be, those that wait included."""
        return self._device.most_runs

    @property
    def device(self) -> Device:
        """What the runs share."""
        return self._device

    def load(self) -> dict[str, int]:
        """How many runs are active, wait, and may be active at once."""
        return self._device.counts()

    def introduce(self, choice: Mapping[str, str]) -> Iterator[str]:
        """Values of the idle stage: at once while the chosen checkpoints load, then again when they are there."""
        lanes = [_card(kind, choice[kind.key]) for kind in KINDS]
        value = _value(stream.opening(uuid4().hex, lanes))
        try:
            for sentence in self._loaded(choice.values()):
                if sentence:
                    value += _value(stream.state("loading", sentence))
                    yield value
            with ExitStack() as stack:
                lanes = [self._lane(kind, choice[kind.key], stack)[0] for kind in KINDS]
        except ModelError as error:
            yield value + _value(stream.state("failed", str(error)))
            return
        problem = _problem(lanes)
        state = stream.state("failed", problem) if problem else stream.state("idle", READY)
        yield _value(stream.opening(uuid4().hex, lanes), state)

    def run(
        self, session: str, question: Question, choice: Mapping[str, str], passes_per_second: float
    ) -> Iterator[Picture]:
        """Pictures of one comparison, from the queue to the closing state; the last one is not running."""
        identity, value, lanes = uuid4().hex, "", list[Lane]()
        try:
            live = LiveRun(self._device.join(), question.threshold, passes_per_second)
        except BusyError as error:
            yield Picture(stream.line(stream.refusal(identity, str(error))), running=False)
            return
        self.sessions.begin(session, live)
        try:
            for text in frames(self._steps(identity, question, choice, live, lanes), live):
                value += text
                yield Picture(value, running=True)
            yield Picture(value, running=False, result=self._result(identity, question, lanes))
        finally:
            self.sessions.end(session, live)

    def _result(self, identity: str, question: Question, lanes: list[Lane]) -> Run | None:
        return finished(identity, question, lanes) if any(lane.records for lane in lanes) else None

    def _steps(
        self, identity: str, question: Question, choice: Mapping[str, str], live: LiveRun, lanes: list[Lane]
    ) -> Iterator[Step]:
        yield Step((stream.opening(identity, [_card(kind, choice[kind.key]) for kind in KINDS]),))
        try:
            yield from self._wait(choice, live)
            if live.stopped:
                yield Step((stream.state("stopped", "Stopped before the first pass."),))
            else:
                yield from self._race(identity, question, choice, live, lanes)
        except ValueError as error:
            yield Step((stream.state("failed", without_paths(complete(str(error)))),))
        except Exception as error:  # noqa: BLE001 - whatever it was, the page says so and lives on
            _log.exception("a run failed")
            yield Step((stream.state("failed", failure(error)),))

    def _race(
        self, identity: str, question: Question, choice: Mapping[str, str], live: LiveRun, lanes: list[Lane]
    ) -> Iterator[Step]:
        with ExitStack() as stack:
            met = [self._lane(kind, choice[kind.key], stack) for kind in KINDS]
            cards = [card for card, _ in met]
            lanes.extend(lane for _, lane in met if lane is not None)
            yield Step((stream.opening(identity, cards),))
            if not lanes:
                raise ModelError(_problem(cards))
            yield Step((stream.state("running", _running(cards)),))
            yield from compare(lanes, question, live, self._device)

    def _wait(self, choice: Mapping[str, str], live: LiveRun) -> Iterator[Step]:
        for told in self.ready(choice.values(), live):
            yield Step((told,) if told else ())

    def ready(self, names: Iterable[str], live: LiveRun) -> Iterator[stream.Message | None]:
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

    def _lane(self, kind: Kind, name: str, stack: ExitStack) -> tuple[stream.Message, Lane | None]:
        """How the lane introduces itself, and the lane, whose checkpoint stays loaded until `stack` is closed."""
        try:
            checkpoint = stack.enter_context(self.models.use(name))
        except ModelError as error:
            return _card(kind, name, problem=str(error)), None
        if kind.needs_masks and not checkpoint.supports_masks:
            sentence = (
                f"{name} was not trained to fill masks, so it cannot write in this lane. Choose a checkpoint made by "
                "python -m mars.training mars."
            )
            return _card(kind, name, problem=sentence), None
        block = f", block size {checkpoint.block_size}" if kind.needs_masks and checkpoint.block_size else ""
        about = f"{block} · {checkpoint.engine.device.type.upper()}"
        return _card(kind, name, about), Lane(kind.key, kind.title, kind.decoder, checkpoint)


def _card(kind: Kind, name: str, about: str = "", problem: str | None = None) -> stream.Message:
    return stream.lane(kind.key, kind.title, name, kind.decoder.replace("_", " ") + about, kind.hint, problem)


def _problem(cards: list[stream.Message]) -> str:
    """Why the first lane that cannot write cannot, or nothing."""
    return next((f"{card['title']} cannot write: {card['problem']}" for card in cards if card["problem"]), "")


def _running(cards: list[stream.Message]) -> str:
    writing = [card["title"] for card in cards if not card["problem"]]
    return " and ".join(writing) + (" write side by side." if len(writing) > 1 else " writes alone.")


def _value(*messages: stream.Message) -> str:
    return "".join(map(stream.line, messages))
