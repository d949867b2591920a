"""The pace of the page: at most twenty pictures a second, five at full speed, and as slow as a person wants to watch.

Slowing down scales the model time of all lanes by the same factor, so the lanes keep their true proportion. Nothing
here touches the clocks: waits lie between passes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from app.compare import stream
from app.scheduling import LiveRun

FRAME_SECONDS = 0.05
HURRIED_FRAME_SECONDS = 0.2  # at full speed: every picture takes time from the models, where they share a processor


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
    _total_seconds: dict[str, float] = field(default_factory=dict)
    _passes: Counter[str] = field(default_factory=Counter)

    def due(self, step: Step, passes_per_second: float) -> float:
        """The time at which to show `step`: never before now. Time lost elsewhere is not made up for."""
        now = self.now()
        if step.pass_seconds <= 0.0 or passes_per_second <= 0.0:
            return now
        self._passes[step.lane] += 1
        self._total_seconds[step.lane] = self._total_seconds.get(step.lane, 0.0) + step.pass_seconds
        ((slowest, passes),) = self._passes.most_common(1)
        passed = max(0.0, step.began_seconds - self._reached_seconds)
        self._reached_seconds = max(self._reached_seconds, step.began_seconds)
        mean_passes = passed * passes / self._total_seconds[slowest]
        self._due = max(now, self._due + mean_passes / passes_per_second)
        return self._due


def frames(steps: Iterable[Step], live: LiveRun, now: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """The lines of `steps` in order, gathered into pictures, without lines that a later one in the picture replaces.

    Pictures are at least `FRAME_SECONDS` apart, at full speed `HURRIED_FRAME_SECONDS`.
    """
    schedule, next_frame = Schedule(now), now()
    waiting: list[Mapping[str, object]] = []
    for step in steps:
        due = schedule.due(step, live.passes_per_second)
        while not live.stopped and (moment := now()) < due:
            if waiting and moment >= next_frame:
                yield stream.lines(stream.thinned(waiting))
                waiting, next_frame = [], now() + _frame_seconds(live)
            else:
                live.rest((min(due, next_frame) if waiting else due) - moment)
        waiting += step.messages
        if waiting and now() >= next_frame:
            yield stream.lines(stream.thinned(waiting))
            waiting, next_frame = [], now() + _frame_seconds(live)
    if waiting:
        yield stream.lines(stream.thinned(waiting))


def _frame_seconds(live: LiveRun) -> float:
    """Least seconds between two pictures."""
    return FRAME_SECONDS if live.passes_per_second > 0.0 else HURRIED_FRAME_SECONDS
