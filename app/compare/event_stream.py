"""From the steps of a live run to the lines that pages read as server-sent events (`app/server/routes.py`).

A step waits until it is due at the pace of the page; steps are gathered into pictures, at most twenty a second, five at
full speed. Slowing down scales the model time of all lanes by the same factor, so they keep their true proportion, and
touches no clock: waits lie between passes. Lines stay after the end of a run, so that a page that lost its connection
goes on where it stopped.
"""

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from app.compare import stream
from app.runs.run import Run
from app.scheduling import LiveRun

FRAME_SECONDS = 0.05
HURRIED_FRAME_SECONDS = 0.2  # at full speed: every picture takes time from the models, where they share a processor
FOLLOWED_SECONDS = 120.0
"""A run that no page has read for so long is stopped."""
MOST_KEPT = 32
"""Runs that are over, whose lines stay for pages that still read them."""
QUIET_SECONDS = 15.0
"""A connected page gets something at least this often, so that no proxy takes its connection for dead."""
ABANDONED = "Stopped, since no page had read this run for two minutes."


@dataclass(frozen=True, slots=True)
class Step:
    """Messages that belong together; for a pass also its lane, its seconds, and the lane's clock before it."""

    messages: tuple[Mapping[str, object], ...]
    lane: str = ""
    pass_seconds: float = 0.0
    began_seconds: float = 0.0


@dataclass(slots=True)
class Schedule:
    """Converts model time to wall-clock time: a mean pass of the lane with most passes takes 1 / passes_per_second."""

    now: Callable[[], float]
    _due: float = 0.0
    _reached_seconds: float = 0.0
    _total_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _passes: Counter[str] = field(default_factory=Counter)

    def due(self, step: Step, passes_per_second: float) -> float:
        """The time at which to show `step`: never before now. Time lost elsewhere is not made up for."""
        now = self.now()
        if step.pass_seconds <= 0.0 or passes_per_second <= 0.0:
            return now
        self._passes[step.lane] += 1
        self._total_seconds[step.lane] += step.pass_seconds
        ((slowest, passes),) = self._passes.most_common(1)
        passed = max(0.0, step.began_seconds - self._reached_seconds)
        self._reached_seconds = max(self._reached_seconds, step.began_seconds)
        mean_passes = passed * passes / self._total_seconds[slowest]
        self._due = max(now, self._due + mean_passes / passes_per_second)
        return self._due


def frames(steps: Iterable[Step], live: LiveRun, now: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """The lines of `steps` in order, gathered into pictures."""
    schedule, next_frame = Schedule(now), now()
    waiting: list[Mapping[str, object]] = []

    def picture() -> str:
        nonlocal next_frame
        text = stream.lines(waiting)
        waiting.clear()
        next_frame = now() + (FRAME_SECONDS if live.passes_per_second > 0.0 else HURRIED_FRAME_SECONDS)
        return text

    for step in steps:
        due = schedule.due(step, live.passes_per_second)
        while not live.stopped and (moment := now()) < due:
            if waiting and moment >= next_frame:
                yield picture()
            else:
                live.rest((min(due, next_frame) if waiting else due) - moment)
        waiting += step.messages
        if waiting and now() >= next_frame:
            yield picture()
    if waiting:
        yield picture()


class EventStream:
    """The lines of one run of `session`. One thread writes, any number of pages follow."""

    def __init__(self, identity: str, session: str, live: LiveRun, now: Callable[[], float] = time.monotonic) -> None:
        self.identity = identity
        self.session = session
        self.live = live
        self.closed_at: float | None = None
        self._now = now
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._result: Run | None = None
        self._wakes: list[Callable[[], None]] = []
        self._left = now()

    @property
    def closed(self) -> bool:
        """Whether the run is over."""
        return self.closed_at is not None

    def write(self, steps: Iterable[Step]) -> None:
        """Append the lines of `steps` as they are due; ends the run when no page has followed for FOLLOWED_SECONDS."""

        def followed() -> Iterator[Step]:
            for step in steps:
                with self._changed:
                    abandoned = not self._wakes and self._now() - self._left > FOLLOWED_SECONDS
                if abandoned:
                    self.live.stop(ABANDONED)
                yield step

        for text in frames(followed(), self.live):
            self.put(text)

    def put(self, text: str) -> None:
        with self._changed:
            self._lines += text.split("\n")[:-1]
            self._wake()

    def close(self, result: Run | None = None) -> None:
        """End the stream: the run is over, and no more lines come."""
        with self._changed:
            self._result = result
            self.closed_at = self._now()
            self._wake()

    def result(self, timeout_seconds: float) -> Run | None:
        """Wait until the run is over and return it; None if it still goes on when the time is up, or had no pass."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed, timeout_seconds)
            return self._result

    def is_over(self, after: int) -> bool:
        """Whether no line comes after the first `after` ones."""
        return self.closed and len(self._lines) <= after

    def behind(self, after: int) -> str:
        """All lines after the first `after` ones."""
        with self._changed:
            return "".join(f"{line}\n" for line in self._lines[after:])

    async def follow(self, after: int) -> AsyncIterator[tuple[int, str]]:
        """Yield the number of all lines so far and the new ones as they come, "" after QUIET_SECONDS without any."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the server has shut down
                loop.call_soon_threadsafe(woken.set)

        with self._changed:
            self._wakes.append(wake)
        try:
            while True:
                woken.clear()
                over = self.closed
                if text := self.behind(after):
                    after += text.count("\n")
                    yield after, text
                elif over:
                    return
                else:
                    try:
                        await asyncio.wait_for(woken.wait(), QUIET_SECONDS)
                    except TimeoutError:
                        yield after, ""
        finally:
            with self._changed:
                self._wakes.remove(wake)
                self._left = self._now()

    def _wake(self) -> None:
        self._changed.notify_all()
        for wake in self._wakes:
            wake()


class EventStreams:
    """The event streams of runs by the identity of the run, which only its page knows: nobody can guess it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, EventStream] = {}

    def open(self, identity: str, session: str, live: LiveRun) -> EventStream:
        """A new event stream for a run; of those that are over, the last 32 are kept."""
        event_stream = EventStream(identity, session, live)
        with self._lock:
            ended = sorted((one.closed_at, name) for name, one in self._streams.items() if one.closed_at is not None)
            for _, name in ended[:-MOST_KEPT]:
                del self._streams[name]
            self._streams[identity] = event_stream
        return event_stream

    def find(self, identity: str) -> EventStream | None:
        """The event stream of a run that is live or one of the latest; None for any other."""
        return self._streams.get(identity)
