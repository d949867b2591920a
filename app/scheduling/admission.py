"""The admission queue of the device: a limited number of runs at once, whose forward passes take turns."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager

LINE = 40


class BusyError(ValueError):
    """The line is full; the message is a sentence for the person."""


class AdmissionQueue:
    """Admits runs, and passes one at a time, both first come, first served.

    At most `places` runs are active; later ones wait in the queue and can ask for their position. At most `line` of
    them wait. An active run takes a lock before each pass, so two of them alternate and a long run never holds up a
    short one; each device has a lock of its own.
    """

    def __init__(self, places: int = 4, line: int = LINE) -> None:
        if places < 1:
            raise ValueError(f"places must be >= 1, got {places}")
        if line < 0:
            raise ValueError(f"line must be >= 0, got {line}")
        self.places = places
        self.most_runs = places + line  # those that wait included
        self._changed = threading.Condition()
        self._line: list[Ticket] = []
        self._locks: defaultdict[str, deque[object]] = defaultdict(deque)

    def counts(self) -> dict[str, int]:
        """The numbers of runs that are active, that wait, and that may be active at once."""
        with self._changed:
            active = min(len(self._line), self.places)
            return {"active": active, "waiting": len(self._line) - active, "places": self.places}

    def join(self) -> Ticket:
        """Stand in line for a place.

        Raises:
            BusyError: the line is full.
        """
        ticket = Ticket(self)
        with self._changed:
            if len(self._line) >= self.most_runs:
                waiting = len(self._line) - self.places
                raise BusyError(f"The app is busy and its queue is full ({waiting} waiting). Try again in a moment.")
            self._line.append(ticket)
        return ticket

    @contextmanager
    def lock(self, where: str = "") -> Iterator[None]:
        """Hold the device called `where` for one pass; waits until those who asked earlier have had theirs."""
        mine = object()
        with self._changed:
            waiting = self._locks[where]
            waiting.append(mine)
            self._changed.wait_for(lambda: waiting[0] is mine)
        try:
            yield
        finally:
            with self._changed:
                waiting.popleft()
                self._changed.notify_all()

    def _position(self, ticket: Ticket) -> int:
        return max(0, self._line.index(ticket) - self.places + 1) if ticket in self._line else 0


class Ticket:
    """A run's place in line. `leave` gives it back and may be called from any thread, any number of times."""

    def __init__(self, queue: AdmissionQueue) -> None:
        self._queue = queue

    @property
    def position(self) -> int:
        """0 when the run may go on, else how many runs must end first."""
        with self._queue._changed:
            return self._queue._position(self)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a change in line, no longer than `timeout_seconds`; True when the run may go on."""
        queue = self._queue
        with queue._changed:
            before = queue._position(self)
            if before:
                queue._changed.wait_for(lambda: queue._position(self) != before, timeout_seconds)
            return queue._position(self) == 0

    def leave(self) -> None:
        """Give the place to the next in line."""
        with self._queue._changed:
            if self in self._queue._line:
                self._queue._line.remove(self)
            self._queue._changed.notify_all()
