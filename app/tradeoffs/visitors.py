"""Visitors who come at random to one checkpoint. Two lanes answer the same visitors: AR, and MARS adapting to the load.

Time is simulated: a lane's clock is the time of its passes, as on the rest of the page, and a lane without work moves
its clock to the next visitor. The lane whose clock is behind makes the next pass. The lanes share the weights but no
pass.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from app.compare import stream
from app.compare.pace import Step
from app.compare.runner import NEVER_BEGAN, Runner
from app.compare.starting import device_lock, prompt_ids
from app.scheduling import LiveRun
from mars import decoders
from mars.config import DecodingSettings
from mars.schema import StrictDict, between

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint
    from mars.decoding.service import Service, Stream
    from mars.decoding.simulated_lane import SimulatedLane

LEAST, MOST, USUAL = 0.1, 5.0, 0.5
"""Visitors a second."""
PLACES = 4
QUEUE = 20
TOKENS = 48
LONGEST_SECONDS = 60.0
"""Of a lane's clock, and of anybody's watch."""
WINDOW_SECONDS = 5.0
PICTURE_SECONDS = 0.25
_SEED = 1

Rate = between(float, LEAST, MOST)


class LaneState(StrictDict):
    """A lane at one time of its clock; visitors are waiting, being answered (`writing`), answered, or refused.

    `speed` is tokens a second of all rows in the last seconds, `first` the median time to first token so far, None
    before the first one, `layouts` the layouts of the last pass with their numbers of rows.
    """

    clock: float
    waiting: int
    writing: int
    answered: int
    refused: int
    speed: float
    first: float | None
    layouts: str


class Load(StrictDict):
    """The lanes now, by key."""

    kind: Literal["load"]
    lanes: dict[str, LaneState]


Message = Annotated[Load | stream.Status, Field(discriminator="kind")]
"""A message of a run to its page; `visitors.js` draws it."""


class Arrivals:
    """Times and questions of the visitors, the same for both lanes. A new `rate` applies to visitors not drawn yet."""

    def __init__(self, rate: float, questions: int) -> None:
        self.rate = rate
        self._dice = random.Random(_SEED)
        self._questions = questions
        self._drawn: list[tuple[float, int]] = []

    def __getitem__(self, number: int) -> tuple[float, int]:
        """Seconds and question of visitor `number`."""
        while len(self._drawn) <= number:
            before = self._drawn[-1][0] if self._drawn else 0.0
            self._drawn.append((before + self._dice.expovariate(self.rate), self._dice.randrange(self._questions)))
        return self._drawn[number]


@dataclass(slots=True, eq=False)
class ShownLane:
    """A lane that answers the visitors with one service, and what the page shows of it."""

    lane: SimulatedLane
    service: Service
    layouts: str = ""
    _wrote: deque[tuple[float, int]] = field(default_factory=deque)

    def step(self) -> None:
        """Make one pass; without a visitor, first move the clock to the next one."""
        record = self.lane.step()
        self.layouts = ", ".join(f"{count} {name}" for name, count in sorted(self.service.layouts.items()))
        self._wrote.append((self.lane.clock, sum(row.accepted for row in record.rows) if record else 0))

    def now(self) -> LaneState:
        """The state of the lane now."""
        clock, requests = self.lane.clock, self.lane.requests
        while self._wrote and self._wrote[0][0] < clock - WINDOW_SECONDS:
            self._wrote.popleft()
        seconds = min(WINDOW_SECONDS, clock) or 1.0
        waiting = max(0, self.lane.open - PLACES)
        first = [one.first - one.arrived for one in requests if one.first is not None]
        return {
            "clock": clock,
            "waiting": waiting,
            "writing": self.lane.open - waiting,
            "answered": sum(one.ended is not None for one in requests),
            "refused": sum(one.refused for one in requests),
            "speed": sum(tokens for _, tokens in self._wrote) / seconds,
            "first": statistics.median(first) if first else None,
            "layouts": self.layouts,
        }


class Visitors:
    """Runs of all sessions on the checkpoint called `name`; `prompts` are the questions of visitors."""

    def __init__(
        self, runner: Runner, name: str, prompts: Sequence[str], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._runner = runner
        self._name = name
        self._prompts = prompts
        self._now = now
        self._arrivals: dict[str, Arrivals] = {}

    def set_rate(self, session: str, rate: float) -> None:
        """Set the visitors per second from now on; without a run nothing happens."""
        if (arrivals := self._arrivals.get(session)) is not None:
            arrivals.rate = rate

    def stop(self, session: str) -> None:
        """End the run of a session, if there is one."""
        if session in self._arrivals:
            self._runner.sessions.stop(session)

    def start(self, session: str, rate: float) -> str:
        """Start a run in a thread; returns its identity, as `Runner.start` does.

        It has several pictures a second and ends after a minute. It becomes the live run of `session` and stops the one
        before.

        Raises:
            BusyError: the queue is full.
        """
        live = LiveRun(self._runner.queue.join(), None)
        arrivals = self._arrivals[session] = Arrivals(rate, len(self._prompts))
        return self._runner.begin(session, live, lambda _: self._steps(session, arrivals, live))

    def _steps(self, session: str, arrivals: Arrivals, live: LiveRun) -> Iterator[Step]:
        lanes: dict[str, ShownLane] = {}
        try:
            for told in self._runner.ready([self._name], live):
                yield Step((told,) if told else ())
            if live.stopped:
                yield NEVER_BEGAN
                return
            with self._runner.models.use(self._name) as checkpoint:
                lanes |= self._lanes(checkpoint, arrivals)
                yield Step((stream.state("running", "Both lanes answer the same visitors, each on its own clock."),))
                for _ in self._race(checkpoint, list(lanes.values()), live):
                    yield Step((_now(lanes),))
            finished = f"Finished after {LONGEST_SECONDS:.0f} seconds."
            end = stream.state("stopped", "Stopped.") if live.stopped else stream.state("done", finished)
            yield Step((_now(lanes), end))
        finally:
            for shown in lanes.values():
                shown.lane.close()
            if self._arrivals.get(session) is arrivals:
                del self._arrivals[session]

    def _race(self, checkpoint: Checkpoint, lanes: Sequence[ShownLane], live: LiveRun) -> Iterator[None]:
        """Let the lane that is behind make passes; yields when the next picture is due."""
        end = self._now() + LONGEST_SECONDS
        due = 0.0
        while not live.stopped and self._now() < end:
            behind = min(lanes, key=lambda shown: shown.lane.clock)
            if behind.lane.clock >= LONGEST_SECONDS:
                return
            with device_lock(checkpoint, self._runner.queue):
                behind.step()
            if self._now() >= due:
                due = self._now() + PICTURE_SECONDS
                yield

    def _lanes(self, checkpoint: Checkpoint, arrivals: Arrivals) -> dict[str, ShownLane]:
        from mars.decoding.service import LOOKAHEAD, Service  # late: it reads torch
        from mars.decoding.simulated_lane import SimulatedLane

        if not checkpoint.supports_masks:
            raise ValueError(f"{checkpoint.name} was not trained to fill masks, so it has nothing to adapt")
        settings = DecodingSettings(max_new_tokens=TOKENS, block_size=checkpoint.usual_block_size)
        prompts = [prompt_ids(checkpoint, prompt, TOKENS) for prompt in self._prompts]
        capacity = max(map(len, prompts)) + TOKENS + LOOKAHEAD

        def shown(decoder: str) -> ShownLane:
            service = Service(checkpoint.engine, PLACES, capacity, beside=True)

            def submit(question: int) -> Stream:
                return service.submit(decoder, prompts[question], settings)

            return ShownLane(SimulatedLane(service, submit, iter(arrivals), most=PLACES + QUEUE), service)

        return {"ar": shown(decoders.BASELINE), "mars": shown(decoders.EXACT)}


def _now(lanes: Mapping[str, ShownLane]) -> Load:
    return {"kind": "load", "lanes": {key: shown.now() for key, shown in lanes.items()}}
