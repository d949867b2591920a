"""A service of one model: streams share each forward pass, and may join and leave at any time.

    service = Service(engine)
    for record in service.submit("sliding_window", prompt, settings):
        ...

The service has no thread of its own. A reader that asks for its next record and finds none makes one pass for all
streams, so that a slow reader delays no other: its records wait for it, or, with `ahead`, its row waits.
Where one thread reads all streams, it makes the passes itself: `advance`, and then `ready` of each stream.
"""

from __future__ import annotations

import itertools
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Self

from mars import decoders
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import METHODS
from mars.decoding.base import check_prompt
from mars.decoding.method import Method, Row
from mars.decoding.policy import Policy
from mars.decoding.pool import Pool
from mars.engine import Engine
from mars.engine.workers import compute
from mars.records import ForwardPass

PLACES = 8
MOST_TOKENS = 4096
LOOKAHEAD = 320

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """A row of a service, and the `records` that its stream has not read. `ended`: no pass will add a record.

    With `ahead` the row sits out passes while so many of its records wait to be read. `shared` says whether other rows
    took part in any of its passes.
    """

    row: Row
    ahead: int | None = None
    records: deque[ForwardPass] = field(default_factory=deque)
    passes: int = 0
    ended: bool = False
    shared: bool = False
    error: BaseException | None = None

    def leave(self) -> None:
        """Take no part in later passes."""
        if not self.ended:
            self.ended = True
            self.row.control.stop()

    def take(self, record: ForwardPass, share: int) -> None:
        """Keep this row's part of a pass, as if the row had been alone in it."""
        [part] = [part for part in record.rows if part.row == self.row.number]
        phase = record.phase if record.phase == "prefill" else self.row.method.phase
        self.records.append(ForwardPass(self.passes, phase, record.seconds, share, (replace(part, row=0),)))
        self.passes += 1
        self.shared |= len(record.rows) > 1
        self.ended |= part.finish_reason is not None


class Stream:
    """The records of one prompt, its row numbered 0 and its passes from 0, as its decoder alone would yield them.

    `seconds` are those of the whole pass, which other streams may share; `query_tokens` are this row's own. Closing a
    stream that has not ended, or dropping it, stops its `control` and takes its row out before the next pass.
    """

    def __init__(self, next_record: Callable[[Member], ForwardPass | None], member: Member):
        self.control = member.row.control
        self._next_record = next_record
        self._member = member
        self._closed = False
        weakref.finalize(self, member.leave).atexit = False

    @property
    def shared(self) -> bool:
        """True if another stream took part in any of its passes so far: its seconds then count that work too."""
        return self._member.shared

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ForwardPass:
        """The next record, or the error of a pass that this row took part in: then the stream has ended."""
        record = None if self._closed else self._next_record(self._member)
        if record is None:
            raise StopIteration
        return record

    def ready(self) -> list[ForwardPass]:
        """The records that wait here, for the one thread that makes the passes (`Service.advance`); then an error."""
        records = list(self._member.records)
        self._member.records.clear()
        if not records and self._member.error is not None:
            error, self._member.error = self._member.error, None
            raise error.with_traceback(None)
        return records

    @property
    def ended(self) -> bool:
        """Whether nothing more is to come: no record waits and no pass will add one."""
        member = self._member
        waits = member.records or member.error is not None
        return self._closed or ((member.ended or member.row.control.stopped) and not waits)

    def close(self) -> None:
        """Leave; records not read yet are dropped."""
        self._closed = True
        self._member.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Service:
    """Up to `places` rows of one engine decode together; more wait for a place.

    `capacity` is how many slots each has: tokens of prompt and answer, and the masks and drafts behind them. The
    default takes prompts and answers of up to 4096 tokens. Use it from any number of threads.

    With `beside`, a long prompt delays the others only a little, and prompts that begin alike share what is cached. The
    records of a stream then show fewer positions of its prompt, or more passes over it, than alone
    (mars/decoding/pool.py). The `policy`, by default one for rows that adapt, chooses what rows spend in each pass,
    which changes the number of passes.
    """

    def __init__(
        self,
        engine: Engine,
        places: int = PLACES,
        capacity: int | None = None,
        *,
        beside: bool = False,
        policy: Policy | None = None,
    ):
        if places < 1:
            raise ValueError(f"places must be >= 1, got {places}")
        self._engine = engine
        self._places = places
        self._beside = beside
        self._policy = policy
        self._capacity = capacity or min(engine.context_length, MOST_TOKENS) + LOOKAHEAD
        self._pool: Pool | None = None
        self._numbers = itertools.count()
        self._arrivals: deque[Member] = deque()
        self._members: dict[int, Member] = {}
        self._changed = threading.Condition()
        self._stepping = False

    def prepare(self, decoder: str, settings: DecodingSettings) -> None:
        """Before prompts come, capture the CUDA graphs of this decoder's passes, or measure passes if it adapts.

        ValueError where the decoder is unknown or cannot share passes.
        """
        method = self._method(decoder, settings)
        if self._engine.static_shapes or method.adapts:
            compute(self._engine.device, lambda: self._joined(()).prepare(method, settings.threshold))

    def submit(
        self,
        decoder: str,
        prompt: Sequence[int],
        settings: DecodingSettings,
        control: Control | None = None,
        ahead: int | None = None,
    ) -> Stream:
        """Decode `prompt` (token ids) beside other streams; nothing is computed before the first record is asked for.

        `control` changes this stream's threshold; give each stream its own. `ahead` is the most records that may wait
        for the reader (None: any number): a change of the threshold acts on the passes after them. ValueError where the
        decoder is unknown or cannot share passes, the prompt is empty or does not fit, or `ahead` is below 1.
        """
        if ahead is not None and ahead < 1:
            raise ValueError(f"ahead must be >= 1, got {ahead}")
        method = self._method(decoder, settings)
        check_prompt(self._engine, prompt, settings)
        slots = len(prompt) + settings.max_new_tokens + method.lookahead
        if slots > self._capacity:
            raise ValueError(
                f"the prompt has {len(prompt)} tokens, max_new_tokens is {settings.max_new_tokens} and {decoder} looks "
                f"{method.lookahead} ahead: that is {slots} slots, but each row of this service has {self._capacity}"
            )
        row = Row(
            number=next(self._numbers),
            prompt=tuple(prompt),
            method=method,
            settings=settings,
            control=control or Control(settings.threshold, settings.score),
        )
        member = Member(row=row, ahead=ahead)
        stream = Stream(self.next_record, member)
        self._arrivals.append(member)
        return stream

    def next_record(self, member: Member) -> ForwardPass | None:
        """The member's next record, after as many passes as it takes; None when it has ended."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: member.records or not self._stepping)
                if member.records:
                    return member.records.popleft()
                if member.error is not None:
                    error, member.error = member.error, None
                    raise error.with_traceback(None)
                if member.ended or member.row.control.stopped:
                    return None
                self._stepping = True
            self._step()

    def advance(self) -> ForwardPass | None:
        """One pass for all streams, rows numbered in order of arrival; None if no stream is left or the pass failed.

        Each stream's reader gets its part of the record, or the error.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._stepping)
            self._stepping = True
        return self._step()

    def refuse(self) -> None:
        """Let the policy know of a request that was refused because too many others wait."""
        if self._pool is not None:
            self._pool.refused += 1

    @property
    def layouts(self) -> Set[str]:
        """The layouts of the last pass (`Method.layout_name`); empty if it read prompts."""
        return self._pool.layouts if self._pool is not None else set()

    def _method(self, decoder: str, settings: DecodingSettings) -> Method:
        if decoder not in decoders.TABLE:
            raise ValueError(f"decoder must be one of {', '.join(METHODS)} to share passes, got {decoder!r}")
        if reason := decoders.TABLE[decoder].alone:
            raise ValueError(f"{decoder} cannot share passes with others: {reason}; call the decoder itself")
        return METHODS[decoder](self._engine, settings)

    def _step(self) -> ForwardPass | None:
        """One pass for all, made by the one thread that has set `_stepping`."""
        try:
            return self._pass()
        finally:
            with self._changed:
                self._stepping = False
                self._changed.notify_all()

    def _pass(self) -> ForwardPass | None:
        """One pass for all; an error goes to the streams that took part in it."""
        arrivals = [self._arrivals.popleft() for _ in range(len(self._arrivals))]
        self._members.update((member.row.number, member) for member in arrivals)
        for member in self._members.values():
            member.row.resting = member.ahead is not None and len(member.records) >= member.ahead
        if self._pool is not None:
            self._pool.shares = {}  # nobody takes part yet in the pass that may fail
        try:
            record = compute(self._engine.device, lambda: self._joined(arrivals).step())
        except Exception as error:  # noqa: BLE001 - whatever it is, the readers get it
            self._fail(error)
            return None
        except BaseException:
            self._fail(RuntimeError("the pass was interrupted: submit the prompt again"))
            raise
        self._hand_out(record)
        return record

    def _joined(self, arrivals: Sequence[Member]) -> Pool:
        """The pool, made for the first pass, with these rows."""
        if self._pool is None:
            self._pool = Pool(self._engine, self._places, self._capacity, beside=self._beside, policy=self._policy)
        for member in arrivals:
            self._pool.join(member.row)
        return self._pool

    def _hand_out(self, record: ForwardPass | None) -> None:
        if record is not None:
            shares = self._pool.shares if self._pool is not None else {}
            for number, share in shares.items():
                self._members[number].take(record, share)
        for number, member in list(self._members.items()):
            if record is None or member.ended or member.row.control.stopped:
                member.ended = True
                del self._members[number]

    def _fail(self, error: Exception) -> None:
        """Give the error to the streams in the failed call; if no call was made, to all, and make a new pool."""
        _log.error("a pass failed: %s", error, exc_info=error)
        failed = list(self._pool.shares) if self._pool is not None else []
        if not failed:
            failed, self._pool = list(self._members), None
        for number in failed:
            member = self._members.pop(number)
            member.leave()
            member.error = error


def service_of(engine: Engine, places: int = PLACES, number: int = 0) -> Service:
    """Service `number` of this engine, made with `places` when it is first asked for; `Checkpoint.submit` uses 0.

    Streams of different services share the weights but no pass.
    """
    services: dict[int, Service] = vars(engine).setdefault("_services", {})
    return services.setdefault(number, Service(engine, places))
