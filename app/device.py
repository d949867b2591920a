"""One device, several people: a limited number of runs at once, whose forward passes take turns."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Device:
    """Hands out places to runs and turns to passes, both first come, first served.

    At most `places` runs are active; later ones wait in line and can ask for their position. Active runs ask for a
    turn before each pass, so two of them alternate and a long run never holds up a short one.
    """

    def __init__(self, places: int = 4) -> None:
        if places < 1:
            raise ValueError(f"places must be >= 1, got {places}")
        self._places = places
        self._changed = threading.Condition()
        self._line: list[Ticket] = []
        self._turns: deque[object] = deque()

    def join(self) -> Ticket:
        """Stand in line for a place."""
        ticket = Ticket(self)
        with self._changed:
            self._line.append(ticket)
        return ticket

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the device for one pass; waits until those who asked earlier have had theirs."""
        mine = object()
        with self._changed:
            self._turns.append(mine)
            self._changed.wait_for(lambda: self._turns[0] is mine)
        try:
            yield
        finally:
            with self._changed:
                self._turns.popleft()
                self._changed.notify_all()

    def _position(self, ticket: Ticket) -> int:
        return max(0, self._line.index(ticket) - self._places + 1) if ticket in self._line else 0


class Ticket:
    """A run's place in line. `leave` gives it back and may be called from any thread, any number of times."""

    def __init__(self, device: Device) -> None:
        self._device = device

    @property
    def position(self) -> int:
        """0 when the run may go on, else how many runs must end first."""
        with self._device._changed:
            return self._device._position(self)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a change in line, no longer than `timeout_seconds`; True when the run may go on."""
        device = self._device
        with device._changed:
            before = device._position(self)
            if before:
                device._changed.wait_for(lambda: device._position(self) != before, timeout_seconds)
            return device._position(self) == 0

    def leave(self) -> None:
        """Give the place to the next in line."""
        with self._device._changed:
            if self in self._device._line:
                self._device._line.remove(self)
            self._device._changed.notify_all()
