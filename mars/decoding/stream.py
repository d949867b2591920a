"""The records of one prompt among others that a service decodes: what its reader holds, and what the service keeps."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from mars.decoding.method import Row
from mars.records import ForwardPass


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """A row of a service, and what its stream has not read yet. `ended`: no pass will add to `records`.

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

    def rest(self) -> None:
        """Sit out the next pass if the reader is far enough behind."""
        self.row.resting = self.ahead is not None and len(self.records) >= self.ahead

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
        """Whether other streams took part in any of its passes so far, so that its seconds are also theirs."""
        return self._member.shared

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ForwardPass:
        """The next record.

        Raises:
            Exception: a pass that this row took part in failed, with this error; the stream has ended.
        """
        record = None if self._closed else self._next_record(self._member)
        if record is None:
            raise StopIteration
        return record

    def ready(self) -> list[ForwardPass]:
        """The records that passes have left here, for the one thread that makes them (`Service.advance`).

        Raises:
            Exception: as for the next record, once those before it are read.
        """
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
