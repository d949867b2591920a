"""The lines that live runs write, for the pages that read them as server-sent events (`app/server/routes.py`).

They are kept for a while after the run has ended, so that a page that lost its connection can go on where it stopped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from app.runs.run import Run

FOLLOWED_SECONDS = 15.0
"""A run that no page has read for so long is stopped."""
KEPT_SECONDS = 120.0
MOST_KEPT = 32
QUIET_SECONDS = 15.0
"""A connected page gets something at least this often, so that no proxy takes its connection for dead."""


class EventStream:
    """The lines of one run of `session`. One thread writes, any number of pages follow."""

    def __init__(self, identity: str, session: str, now: Callable[[], float] = time.monotonic) -> None:
        self.identity = identity
        self.session = session
        self.closed: float | None = None
        self._now = now
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._ends: list[int] = []
        self._result: Run | None = None
        self._wakes: list[Callable[[], None]] = []
        self._left = now()

    @property
    def lines(self) -> int:
        """The number of lines so far."""
        return self._ends[-1] if self._ends else 0

    @property
    def abandoned(self) -> bool:
        """Whether no page has followed for FOLLOWED_SECONDS."""
        with self._changed:
            return not self._wakes and self._now() - self._left > FOLLOWED_SECONDS

    def put(self, text: str) -> None:
        """Append whole lines."""
        with self._changed:
            self._texts.append(text)
            self._ends.append(self.lines + text.count("\n"))
            self._wake()

    def close(self, result: Run | None = None) -> None:
        """End the stream: the run is over, and no more lines come."""
        with self._changed:
            self._result = result
            self.closed = self._now()
            self._wake()

    def result(self, timeout_seconds: float) -> Run | None:
        """Wait until the run is over and return it; None if it still goes on when the time is up, or had no pass."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed is not None, timeout_seconds)
            return self._result

    def behind(self, after: int) -> str:
        """All lines after the first `after` ones."""
        with self._changed:
            place = bisect_right(self._ends, after)
            texts = self._texts[place:]
            if texts and (within := after - (self._ends[place - 1] if place else 0)):
                texts[0] = texts[0].split("\n", within)[within]
            return "".join(texts)

    async def follow(self, after: int) -> AsyncIterator[tuple[int, str]]:
        """Yield the lines after the first `after` ones as they come: the number of all lines so far, and the new ones.

        After QUIET_SECONDS without a line it yields empty text.
        """
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the server has shut down
                loop.call_soon_threadsafe(woken.set)

        with self._changed:
            self._wakes.append(wake)
        try:
            while True:
                woken.clear()
                over = self.closed is not None
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
    """The event streams of live runs by the identity of the run, which only its page knows: nobody can guess it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._streams: dict[str, EventStream] = {}

    def open(self, identity: str, session: str) -> EventStream:
        """A new event stream for a run; drops those of runs that ended long ago."""
        event_stream = EventStream(identity, session, self._now)
        with self._lock:
            self._forget()
            self._streams[identity] = event_stream
        return event_stream

    def find(self, identity: str) -> EventStream | None:
        """The event stream of a run that is live or ended a short while ago; None for any other."""
        return self._streams.get(identity)

    def _forget(self) -> None:
        now = self._now()
        over = [found for found in self._streams.values() if found.closed is not None]
        late = [found for found in over if found.closed is not None and now - found.closed > KEPT_SECONDS]
        for found in {*late, *over[: max(0, len(over) - MOST_KEPT)]}:
            del self._streams[found.identity]
