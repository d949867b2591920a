"""The decoding service for an event loop: one thread makes the passes and hands each request its records."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mars import decoders
from mars.config import DEFAULT_THRESHOLD, DecodingSettings, LayoutName
from mars.control import Control
from mars.decoders import DecoderInfo
from mars.decoding.policy import Policy
from mars.decoding.service import LOOKAHEAD, MOST_TOKENS, Service, Stream
from mars.records import ForwardPass
from mars.serve import PLACES, QUEUE
from mars.serve.guard import ApiError
from mars.serve.metrics import Metrics

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

LONGEST_WAIT_SECONDS = 60
_log = logging.getLogger(__name__)


class AsyncStream:
    """The records of one request, a `Stream` for one event loop to read."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.began: float | None = None  # when it had its first record; None while it holds no row
        self._loop = asyncio.get_running_loop()
        self._left: asyncio.Queue[ForwardPass | Exception | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[ForwardPass]:
        """A record for each pass, or the error of one that failed."""
        while (found := await self._left.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found

    def close(self) -> None:
        """Free the row before the next pass; drop the records that were not read."""
        self.stream.close()

    def deliver(self, found: Sequence[ForwardPass | Exception | None]) -> None:
        """Pass records to the event loop, from the thread of the passes; None ends them."""
        try:
            for item in found:
                self._loop.call_soon_threadsafe(self._left.put_nowait, item)
        except RuntimeError:  # the event loop has ended, so there is no reader
            self.close()


class AsyncService:
    """Decodes requests on one engine: `places` at once, `queue` more wait. The thread starts with the first of them.

    `context` is how many tokens of prompt and answer a request may have. The `policy` chooses what requests spend in
    each pass.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        metrics: Metrics,
        policy: Policy,
        *,
        places: int = PLACES,
        queue: int = QUEUE,
        context: int | None = None,
    ) -> None:
        self.context = min(checkpoint.engine.context_length, context or MOST_TOKENS)
        self.places = places
        self._most = places + queue
        self._service = Service(checkpoint.engine, places, self.context + LOOKAHEAD, beside=True, policy=policy)
        self._metrics, self._policy = metrics, policy
        self._changed = threading.Condition()
        self._requests: list[AsyncStream] = []
        self._thread: threading.Thread | None = None
        self._closed = False
        self._seconds = 1.0  # that a request holds its place, a moving average

    @property
    def running(self) -> int:
        """Requests that hold a row."""
        return sum(request.began is not None for request in list(self._requests))

    @property
    def waiting(self) -> int:
        """Requests that wait for a row, or for their first pass."""
        return len(self._requests) - self.running

    @property
    def threshold(self) -> float | None:
        """τ of requests that leave it to the policy; None without one, as they begin when no others are here."""
        return self._policy.threshold if self._requests else None

    @property
    def alive(self) -> bool:
        """Whether passes can be made."""
        return not self._closed and (self._thread is None or self._thread.is_alive())

    def prepare(self, decoder: str, settings: DecodingSettings) -> None:
        """Make ready for requests of this decoder, before the first comes (`Service.prepare`)."""
        self._service.prepare(decoder, settings)

    def check_room(self) -> None:
        """Raise ApiError if no more passes can be made, or if the queue is full: it then says when to try again."""
        if not self.alive:
            raise ApiError(503, "the server makes no more passes: ask again once it has been restarted")
        if len(self._requests) >= self._most:
            self._service.refuse()
            wait = self._seconds * (1 + self.waiting / self.places)
            seconds = max(1, min(LONGEST_WAIT_SECONDS, round(wait)))
            raise ApiError(
                429,
                f"all places are taken and the queue is full: try again in {seconds} seconds",
                code="rate_limit_exceeded",
                headers={"retry-after": str(seconds)},
            )

    def submit(
        self, decoder: str, prompt: Sequence[int], settings: DecodingSettings, *, free: bool = False
    ) -> AsyncStream:
        """Decode `prompt` beside the others; call it in the event loop that reads the records. `free`: see `Control`.

        ValueError where the decoder cannot share passes, or the prompt does not fit; ApiError where the queue is full,
        or no more passes can be made.
        """
        control = Control(settings.threshold, settings.score, free=free)
        request = AsyncStream(self._service.submit(decoder, prompt, settings, control))
        with self._changed:
            try:
                self.check_room()
            except ApiError:
                request.close()
                raise
            self._requests.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mars-passes", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return request

    def close(self, timeout_seconds: float = 10.0) -> None:
        """End the thread; requests that still run are dropped."""
        with self._changed:
            self._closed = True
            for request in self._requests:
                request.close()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._requests or self._closed)
                if not self._requests:
                    return
                record = self._service.advance()
                if record is not None:
                    self._metrics.passed(record, self._service.layouts)
                self._hand_out()
        except BaseException:
            _log.exception("the thread of the passes has ended")
            with self._changed:
                self._closed = True
                for request in self._requests:
                    request.deliver([RuntimeError("the server makes no more passes"), None])
                self._requests.clear()
            raise

    def _hand_out(self) -> None:
        """Give each request its new records, and forget the requests that have ended."""
        for request in list(self._requests):
            found: list[ForwardPass | Exception | None] = []
            try:
                found.extend(request.stream.ready())
                if found and request.began is None:
                    request.began = time.monotonic()
                ended = request.stream.ended
            except Exception as error:  # noqa: BLE001 - whatever it is, the reader gets it
                found.append(error)
                ended = True
            if ended:
                found.append(None)
                with self._changed:
                    self._requests.remove(request)
                if request.began is not None:
                    self._seconds += 0.2 * (time.monotonic() - request.began - self._seconds)
            if found:
                request.deliver(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A checkpoint under the name that requests use, the service that decodes with it, and defaults for requests.

    `decoder` None is exact decoding where masks were trained, else autoregressive; `loose` is the decoder of requests
    that leave τ to the policy, if another.
    """

    name: str
    checkpoint: Checkpoint
    service: AsyncService
    decoder: str | None = None
    threshold: float | None = DEFAULT_THRESHOLD
    block_size: int | None = None
    loose: str | None = None

    @property
    def decoders(self) -> list[str]:
        """The names of the decoders that a request may name."""
        kinds = self.checkpoint.kinds
        return [info.name for info in decoders.TABLE.values() if not info.alone and info.needs in kinds]

    def info(self, wanted: str | None, *, free: bool = False) -> DecoderInfo:
        """The decoder of a request; `free` says that it leaves it to the policy.

        ValueError where it is none of `decoders`.
        """
        trained = decoders.EXACT if self.checkpoint.supports_masks else decoders.BASELINE
        usual = (self.loose if free else None) or self.decoder or trained
        name = usual if wanted is None else wanted
        if name not in self.decoders:
            raise ValueError(f"decoder must be one of {', '.join(self.decoders)} with this model, got {name[:64]!r}")
        return decoders.TABLE[name]

    def layout(self, info: DecoderInfo, *, free: bool) -> LayoutName:
        """The layout unless a request names one: by the load only where no text, or one left to the policy, changes."""
        return "auto" if info.exact or (free and self.loose is not None) else DecodingSettings().layout

    @property
    def usual_block_size(self) -> int:
        """The block size unless a request names one."""
        return self.block_size or self.checkpoint.usual_block_size
