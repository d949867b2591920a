"""A service whose requests arrive at times of a simulated clock, so that several lanes can share one machine by turns.

    lanes = [SimulatedLane(service, submit, arrivals, most=24) for service in services]
    while running := [lane for lane in lanes if not lane.done]:
        min(running, key=lambda lane: lane.clock).step()

The clock of a lane adds up the seconds of its own passes. Time without a request costs nothing: the clock moves on to
the next arrival. If the lane whose clock is behind always makes the next pass, a machine that becomes slower does so
for all lanes alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mars.decoding.service import Service, Stream
from mars.records import ForwardPass


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """A request by its `number`. Times are of the clock; those of the `first` token and the end are None before it."""

    number: int
    arrived: float
    refused: bool
    first: float | None = None
    ended: float | None = None
    records: list[ForwardPass] = field(default_factory=list)


class SimulatedLane:
    """Answers requests with one service. `arrivals` are their times, ascending, and their numbers; they may be endless.

    `submit` begins the stream of a number. A request that finds `most` others, those that wait included, is refused.
    With a `watch`, such as `time.perf_counter`, the clock adds the seconds of whole steps of the service, the work of
    its controller included; without one, those of the records. `requests` has all that came, in order.
    """

    def __init__(
        self,
        service: Service,
        submit: Callable[[int], Stream],
        arrivals: Iterable[tuple[float, int]],
        *,
        most: int,
        watch: Callable[[], float] | None = None,
    ) -> None:
        self.clock = 0.0
        self.requests: list[Request] = []
        self._service = service
        self._submit = submit
        self._arrivals = iter(arrivals)
        self._next = next(self._arrivals, None)
        self._most = most
        self._watch = watch
        self._open: list[tuple[Request, Stream]] = []

    @property
    def open(self) -> int:
        """The number of requests that are being answered or wait."""
        return len(self._open)

    @property
    def done(self) -> bool:
        """Whether all requests have ended and no other is to come."""
        return not self._open and self._next is None

    def offer(self, number: int, arrived: float | None = None) -> None:
        """Let a request arrive, at this time of the clock or now: it is submitted, or refused if too many are open."""
        refused = len(self._open) >= self._most
        request = Request(number=number, arrived=self.clock if arrived is None else arrived, refused=refused)
        self.requests.append(request)
        if refused:
            self._service.refuse()
        else:
            self._open.append((request, self._submit(number)))

    def step(self) -> ForwardPass | None:
        """Make one pass and return its record; if no request is open, first move the clock to the next arrival.

        Raises:
            Exception: the pass failed, with this error.
        """
        if not self._open and self._next is not None:
            self.clock = max(self.clock, self._next[0])
        self._admit()
        began = self._watch() if self._watch else 0.0
        record = self._service.advance()
        if self._watch:
            self.clock += self._watch() - began
        elif record is not None:
            self.clock += record.seconds
        self._admit()  # these came during the pass, and found the places taken
        for request, stream in self._open:
            self._read(request, stream)
        self._open = [(request, stream) for request, stream in self._open if request.ended is None]
        return record

    def close(self) -> None:
        """Drop the requests that are open."""
        for _, stream in self._open:
            stream.close()
        self._open.clear()

    def _admit(self) -> None:
        """Let in those that have arrived."""
        while self._next is not None and self._next[0] <= self.clock:
            self.offer(self._next[1], self._next[0])
            self._next = next(self._arrivals, None)

    def _read(self, request: Request, stream: Stream) -> None:
        """Keep the new records of a request; the clock shows when they came."""
        found = stream.ready()
        request.records += found
        if request.first is None and any(row.accepted for record in found for row in record.rows):
            request.first = self.clock
        if stream.ended:
            request.ended = self.clock
