"""The live runs: one for each browser session, with the controls that act on it."""

from __future__ import annotations

import threading

from app.scheduling.admission import Ticket
from mars.config import ScoreName
from mars.control import Control

FULL_SPEED = 0.0
PACES = {"Slow": 3.0, "Readable": 12.0, "Real time": FULL_SPEED}
"""The paces of the page by name, with the numbers that addresses have; `rate` says what they mean."""


def rate(pace: float) -> float:
    """Passes per second of the slowest lane at a pace of the page, such as 8 for 12; real time adds no wait."""
    return pace * 2 / 3


class LiveRun:
    """A run that can be steered from other threads: its threshold, its pace, and whether it goes on.

    `passes_per_second` slows the picture, never the clocks; `FULL_SPEED` adds no wait.
    """

    def __init__(self, ticket: Ticket, threshold: float | None, passes_per_second: float = FULL_SPEED) -> None:
        self.ticket = ticket
        self.passes_per_second = passes_per_second
        self._threshold = threshold
        self._lock = threading.Lock()
        self._controls: list[Control] = []
        self._following: list[Control] = []
        self._stop = threading.Event()

    @property
    def threshold(self) -> float | None:
        """The value of the slider; a new one acts from the next pass on, on every lane that follows it."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float | None) -> None:
        with self._lock:
            self._threshold = value
            for control in self._following:
                control.threshold = value

    def control(self, threshold: float | None, score: ScoreName = "probability", *, follows: bool = False) -> Control:
        """The control of one more lane; if it `follows` the slider, at the slider's threshold, else at its own."""
        with self._lock:
            control = Control(self._threshold if follows else threshold, score)
            self._controls.append(control)
            if follows:
                self._following.append(control)
            if self.stopped:
                control.stop()
            return control

    def stop(self) -> None:
        """End the run before its next forward pass and give its place to the next in line."""
        with self._lock:
            self._stop.set()
            for control in self._controls:
                control.stop()
        self.ticket.leave()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def rest(self, seconds: float) -> None:
        """Wait, unless the run is stopped meanwhile."""
        self._stop.wait(seconds)


class Sessions:
    """The live runs, by session. A session has at most one: a new run stops the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, LiveRun] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def running(self, session: str) -> bool:
        """Whether `session` has a live run."""
        return session in self._runs

    def begin(self, session: str, run: LiveRun) -> None:
        """Make `run` the live one of `session`."""
        with self._lock:
            earlier = self._runs.get(session)
            self._runs[session] = run
        if earlier is not None:
            earlier.stop()

    def begin_alone(self, session: str, run: LiveRun) -> bool:
        """Make `run` the live one of `session` unless it has one; returns whether it did."""
        with self._lock:
            return self._runs.setdefault(session, run) is run

    def end(self, session: str, run: LiveRun) -> None:
        """Forget `run`, which is over, and free its place."""
        run.stop()
        with self._lock:
            if self._runs.get(session) is run:
                del self._runs[session]

    def stop(self, session: str) -> None:
        """Stop what `session` runs, if anything."""
        run = self._runs.get(session)
        if run is not None:
            run.stop()

    def leave(self, session: str) -> None:
        """The page was closed: stop its run and forget it."""
        with self._lock:
            run = self._runs.pop(session, None)
        if run is not None:
            run.stop()

    def set_threshold(self, session: str, threshold: float | None) -> None:
        """Set the threshold of the live run from its next pass on; without a live run nothing happens."""
        run = self._runs.get(session)
        if run is not None:
            run.threshold = threshold

    def set_pace(self, session: str, passes_per_second: float) -> None:
        """Set the pace of the live run's picture from now on."""
        run = self._runs.get(session)
        if run is not None:
            run.passes_per_second = passes_per_second
