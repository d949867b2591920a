"""The control of a run: its threshold and its end, which may change while it runs, and what it records."""

from __future__ import annotations

import threading

from mars.config import ScoreName, check_threshold


class Control:
    """Read by the decoder once before each pass; written from any thread.

    A change of `threshold` acts from the next pass on. After `stop()` the model is called no more: a pass that is under
    way ends its rows with finish reason "cancelled", rows between two passes get none. `free` says that the request
    names no threshold, so that a policy may move it (mars/decoding/policy.py). With `trace` the records say what each
    pass did (`mars.records.Trace`); nothing else changes.
    """

    def __init__(
        self, threshold: float | None, score: ScoreName = "probability", *, free: bool = False, trace: bool = False
    ) -> None:
        check_threshold(threshold, score)
        self.free = free
        self.trace = trace
        self._score: ScoreName = score
        self._threshold = threshold
        self._stop = threading.Event()

    @property
    def threshold(self) -> float | None:
        """The threshold for the next pass; None is one-token mode."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float | None) -> None:
        check_threshold(value, self._score)
        self._threshold = value

    def stop(self) -> None:
        """End the run before its next model call."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()
