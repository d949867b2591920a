"""The lanes on one device: each lane's clock is the sum of its own passes, and the lane behind makes the next pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mars.records import ForwardPass


@runtime_checkable
class Closable(Protocol):
    """A generator, or a stream of a service."""

    def close(self) -> None:
        """Make no further pass."""


@dataclass(frozen=True, slots=True)
class LanePass:
    """One forward pass of one lane; `clock_seconds` is that lane's own model time, this pass included."""

    lane: str
    record: ForwardPass
    clock_seconds: float


@dataclass(frozen=True, slots=True)
class LaneEnd:
    """The decoder of this lane has nothing more to yield."""

    lane: str


def race(
    decoders: Mapping[str, Iterator[ForwardPass]],
    turn: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Iterator[LanePass | LaneEnd]:
    """Step the decoders so that all lanes stay at about the same model time; ties go to the first lane.

    Each step runs in the context `turn(lane)`, the lock of its device, so that several races share it pass by pass.
    All decoders are closed when the race ends, fails, or is abandoned.
    """
    clocks = dict.fromkeys(decoders, 0.0)
    try:
        while clocks:
            lane = min(clocks, key=clocks.__getitem__)
            with turn(lane):
                record = next(decoders[lane], None)
            if record is None:
                del clocks[lane]
                yield LaneEnd(lane)
            else:
                clocks[lane] += record.seconds
                yield LanePass(lane, record, clocks[lane])
    finally:
        for decoder in decoders.values():
            if isinstance(decoder, Closable):
                decoder.close()
