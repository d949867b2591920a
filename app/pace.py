"""When to show what: at most twenty pictures a second, five at full speed, and slower than the model for who watches.

Slowing down scales the model time of all lanes by the same factor, so the lanes keep their true proportion. Nothing
here touches the clocks: waits lie between passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app import stream

FRAME_SECONDS = 0.05
HURRIED_FRAME_SECONDS = 0.2  # at full speed: every picture takes time from the models, where they share a processor


class Pacing(Protocol):
    """What steers the picture; a `LiveRun`."""

    passes_per_second: float

    @property
    def stopped(self) -> bool:
        """Whether to hurry to the end."""

    def rest(self, seconds: float) -> None:
        """Wait, or less if stopped."""


@dataclass(frozen=True, slots=True)
class Step:
    """Messages that belong together. For a pass: its duration and the model time of its lane when it began."""

    messages: tuple[stream.Message, ...]
    pass_seconds: float = 0.0
    began_seconds: float = 0.0


@dataclass(slots=True)
class Schedule:
    """Turns model time into moments on the wall clock. The mean pass of the run takes 1 / passes_per_second."""

    now: Callable[[], float]
    _due: float = 0.0
    _reached_seconds: float = 0.0
    _total_seconds: float = field(default=0.0)
    _passes: int = 0

    def due(self, step: Step, passes_per_second: float) -> float:
        """When to show `step`: never earlier than now, and no catching up on time lost elsewhere."""
        now = self.now()
        if step.pass_seconds <= 0.0 or passes_per_second <= 0.0:
            return now
        self._passes += 1
        self._total_seconds += step.pass_seconds
        passed = max(0.0, step.began_seconds - self._reached_seconds)
        self._reached_seconds = max(self._reached_seconds, step.began_seconds)
        mean_passes = passed * self._passes / self._total_seconds
        self._due = max(now, self._due + mean_passes / passes_per_second)
        return self._due


def frames(steps: Iterable[Step], pacing: Pacing, now: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """The lines of `steps` in order, gathered into pictures, without what a later line of the same picture replaces.

    Pictures are no closer together than `FRAME_SECONDS`, or at full speed than `HURRIED_FRAME_SECONDS`.
    """
    schedule, next_frame = Schedule(now), now()
    waiting: list[stream.Message] = []
    for step in steps:
        due = schedule.due(step, pacing.passes_per_second)
        while not pacing.stopped and (moment := now()) < due:
            if waiting and moment >= next_frame:
                yield _picture(waiting)
                waiting, next_frame = [], now() + frame_seconds(pacing)
            else:
                pacing.rest((min(due, next_frame) if waiting else due) - moment)
        waiting += step.messages
        if waiting and now() >= next_frame:
            yield _picture(waiting)
            waiting, next_frame = [], now() + frame_seconds(pacing)
    if waiting:
        yield _picture(waiting)


def _picture(messages: Sequence[stream.Message]) -> str:
    return "".join(map(stream.line, stream.thinned(messages)))


def frame_seconds(pacing: Pacing) -> float:
    """How far pictures are apart at least."""
    return FRAME_SECONDS if pacing.passes_per_second > 0.0 else HURRIED_FRAME_SECONDS
