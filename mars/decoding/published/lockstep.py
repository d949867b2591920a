"""Rows of one engine that take each step together and wait for each other, as in the paper.

A row has a limit: when its response is that long it waits, and is not recorded, until its decoder moves the limit. It
still takes part in each pass, since the rows of a pass are neighbours in the cache: it reads one of its tokens again,
and the result is dropped. The host knows every count here, since these decoders look at each pass before they make the
next.

Shapes: R rows, K slots, W proposals a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from mars.acceptance import HostAcceptResult, to_host
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts
from mars.decoding.method import Batch, Method, Row
from mars.decoding.pool import PREFILL_CHUNK
from mars.decoding.sequences import RowTensors, Sequences
from mars.engine import Engine
from mars.engine.window import Window
from mars.records import ForwardPass, RowPass


@dataclass(slots=True, kw_only=True)
class LockstepRow(Row):
    """A row that waits when its response has `limit` tokens.

    `drafts` has the drafts that another model has written behind its last token.
    """

    limit: int
    drafts: list[int] = field(default_factory=list)

    @property
    def room(self) -> int:
        """Tokens that it may write before it waits or ends."""
        return min(self.settings.max_new_tokens, self.limit) - self.written


def rows_of(
    prompts: Prompts, method: Method, settings: DecodingSettings, control: Control, *, limit: int
) -> list[LockstepRow]:
    """A row for each prompt, numbered from 0."""
    return [
        LockstepRow(number=number, prompt=prompt, method=method, settings=settings, control=control, limit=limit)
        for number, prompt in enumerate(prompts)
    ]


@dataclass(frozen=True, slots=True)
class Step:
    """One pass: its time, its window, and the result of its predictions."""

    seconds: float
    query_tokens: int
    batch: Batch
    window: Window
    result: HostAcceptResult


class LockstepBatch:
    """All rows of one run on one engine. They share a method; after changing rows on the host, call `upload`.

    A second model that reads the same rows gets the `tokens_RK` of the first.
    """

    def __init__(
        self, engine: Engine, rows: Sequence[LockstepRow], capacity: int, tokens_RK: torch.Tensor | None = None
    ):
        self.engine = engine
        self.method = rows[0].method
        self.use_cache = rows[0].settings.use_cache
        stop_ids = torch.tensor(sorted(engine.stop_token_ids), dtype=torch.long, device=engine.device)
        tensors = RowTensors.of(len(rows), capacity + 1, stop_ids)
        if tokens_RK is not None:
            tensors.tokens_RK = tokens_RK
        self.sequences = Sequences(len(rows), tensors)
        self._cache = engine.open(len(rows), capacity, use_cache=self.use_cache)
        for row in rows:
            row.pending = 1 if self.use_cache else row.length
            self.sequences.join(row)

    @property
    def rows(self) -> list[LockstepRow]:
        """The rows by their places, those that wait included."""
        return self.sequences.rows  # type: ignore[return-value]  # nothing else joins

    def read_prompts(self) -> Iterator[ForwardPass]:
        """Put all tokens of the prompts but the last into the cache."""
        lengths = [row.length - 1 for row in self.rows] if self.use_cache else []
        for start, end, counts in prompt_chunks(lengths):
            if self.rows[0].control.stopped:
                return
            with self.engine.clock() as clock:
                offsets_Q = torch.arange(start, end, device=self.engine.device)
                slots_RQ = (self.sequences.length_R[:, None] + offsets_Q).clamp_min(0)
                window = self.forward(slots_RQ, extent=max(lengths) + 1 + end)
            parts = [self.rows[place].only_read(window, place) for place, count in enumerate(counts) if count]
            yield ForwardPass(0, "prefill", clock.seconds, sum(counts), tuple(parts))

    def forward(self, slots_RQ: torch.Tensor, extent: int) -> Window:
        """Cache the tokens of these slots; nothing is predicted."""
        ids_RQ = self.sequences.tokens_RK[: len(self.rows)].gather(1, slots_RQ)
        window = Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=extent, keep=0)
        self._cache.forward(window)
        return window

    def step(self) -> Step:
        """One pass of the method for all rows. Its proposals are written behind the rows' tokens.

        The rows' counts do not change: the caller adds the tokens that it accepts, and uploads the counts.
        """
        with self.engine.clock() as clock:
            batch = self._batch()
            self.method.plan(batch)
            window = self.method.window(batch)
            logits_RWV = self._cache.forward(window)
            judged = self.sequences.judge(range(len(self.rows)), self.method, batch, logits_RWV)
            result = to_host(judged.accepted_R, judged.read)
        extra = window.columns - batch.pending
        query_tokens = sum(extra + self._own(row) for row in self.rows)
        return Step(clock.seconds, query_tokens, batch, window, result)

    def _batch(self) -> Batch:
        """All rows; a waiting row is shown with only the first of its tokens that are not cached."""
        batch = self.sequences.batch(range(len(self.rows)), static=self.engine.static_shapes)
        pending = max(row.pending for row in self.rows if row.room)
        if self.engine.static_shapes:
            pending = 1 << (pending - 1).bit_length()  # so that there are few shapes
        if all(row.room for row in self.rows):
            return replace(batch, pending=pending)
        back_R = (batch.pending_R - 1).masked_fill(batch.room_R > 0, 0)
        return replace(batch, pending=pending, length_R=batch.length_R - back_R, pending_R=batch.pending_R - back_R)

    def _own(self, row: LockstepRow) -> int:
        """Positions computed for a row's real tokens in a pass: without a cache, all of them."""
        pending = row.pending if row.room else 1
        return pending if self.use_cache else row.length - row.pending + pending

    def upload(self) -> None:
        """Copy the host's counts of every row to the device."""
        counts = [(row.length, row.pending, row.written, row.room) for row in self.rows]
        counts_4R = torch.tensor(counts, dtype=torch.long).reshape(-1, 4).T
        self.sequences.counts_4R[:, : len(counts)] = counts_4R.to(self.engine.device)

    def go_on(self, parts: Sequence[RowPass] = ()) -> None:
        """Upload the counts of the rows, but first free the places of those that have ended by these records."""
        ended = {part.row for part in parts if part.finish_reason is not None}
        self.sequences.drop([place for place, row in enumerate(self.rows) if row.number in ended], self._cache)
        self.upload()


def prompt_chunks(lengths: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
    """The chunks in which so many tokens of each row are read.

    Rows are aligned on their right ends: first and last column, counted from there, and the tokens of each row.
    """
    left = max(lengths, default=0)
    while left:
        after = max(left - PREFILL_CHUNK, 0)
        yield -left, -after, [max(length - after, 0) - max(length - left, 0) for length in lengths]
        left = after


def recorded(passes: Iterable[ForwardPass]) -> Iterator[ForwardPass]:
    """The passes numbered, their rows in order: rows change places when others leave."""
    for index, record in enumerate(passes):
        rows = tuple(sorted(record.rows, key=lambda part: part.row))
        yield replace(record, index=index, rows=rows)
