"""Rows that decode together: they join, are read pass by pass, and leave, and none waits for another.

Every decoder that is a `Method` runs here, alone (`decode`) or beside rows of other methods. Places 0 to n - 1 of the
cache are taken: first by the rows that decode, then by those whose prompts are being read. When a row leaves, the last
one takes its place, so that a pass always works on neighbours and copies no cache but that one row's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mars.acceptance import Judgement, to_host
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts
from mars.decoding.method import Method
from mars.decoding.sequences import Batch, Row, Sequences
from mars.engine import Engine
from mars.records import FinishReason, ForwardPass, Phase, Proposal, RowPass
from mars.window import Window, merge

PREFILL_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one method in one pass: their places, in order, and what they forward."""

    places: Sequence[int]
    batch: Batch
    window: Window
    method: Method


class Pool:
    """Up to `places` rows of up to `capacity` slots on one engine; `step` makes one call of the model.

    `shares` are the positions that the last call computed for each row that took part in it, by row number. It is empty
    until that call is made, so that after an error in `step` it says whose it is.
    """

    def __init__(self, engine: Engine, places: int, capacity: int, *, use_cache: bool = True):
        stop_ids = torch.tensor(sorted(engine.stop_token_ids), dtype=torch.long, device=engine.device)
        self._engine = engine
        self._cache = engine.open(places, capacity, use_cache=use_cache)
        self._sequences = Sequences(places, capacity + 1, stop_ids)
        self._use_cache = use_cache
        self._waiting: deque[Row] = deque()
        self._decoding = 0  # the first rows decode, the others' prompts are being read
        self._columns_left = 0  # of the prompts being read, which end in the same column
        self._decoded_last = False
        self._index = 0
        self.shares: dict[int, int] = {}

    @property
    def rows(self) -> int:
        """How many rows are in the pool, those that wait for a place included."""
        return len(self._sequences.rows) + len(self._waiting)

    def join(self, row: Row) -> None:
        """Take in a row before the next pass, or as soon as there is a place."""
        self._waiting.append(row)

    def step(self) -> ForwardPass | None:
        """One pass: a chunk of new prompts, or the next tokens of the other rows; by turns where there are both.

        Rows whose control has stopped are dropped first.

        Returns: the record, or None when no row is left.
        """
        self.shares = {}
        self._drop([place for place, row in enumerate(self._sequences.rows) if row.control.stopped])
        self._admit()
        if not self._sequences.rows:
            return None
        reads_prompts = self._decoding < len(self._sequences.rows) and (self._decoded_last or not self._decoding)
        self._decoded_last = not reads_prompts
        record = self._prefill() if reads_prompts else self._decode()
        self._index += 1
        return record

    def _admit(self) -> None:
        """Give waiting rows a place, unless prompts are being read: rows that are read together start together."""
        self._columns_left = min(self._columns_left, self._longest_prompt())
        if self._columns_left:
            return
        while self._waiting and len(self._sequences.rows) < self._sequences.places:
            row = self._waiting.popleft()
            if row.control.stopped:
                continue
            place = len(self._sequences.rows)
            row.pending = 1 if self._use_cache else row.length
            self._sequences.join(row)
            row.method.begin(row, self._sequences.tokens_RK[place])
        self._columns_left = self._longest_prompt()
        if self._columns_left == 0 or not self._use_cache:
            self._decoding = len(self._sequences.rows)

    def _longest_prompt(self) -> int:
        """Columns that reading the new prompts takes: all tokens but the last, which the first decode pass reads."""
        return max((row.length - 1 for row in self._sequences.rows[self._decoding :]), default=0)

    def _prefill(self) -> ForwardPass:
        """Put the next chunk of the new prompts into the cache, aligned on their right ends."""
        first, new = self._decoding, self._sequences.rows[self._decoding :]
        left = min(self._columns_left, self._longest_prompt())
        self._columns_left = max(left - PREFILL_CHUNK, 0)
        read = [max(row.length - 1 - self._columns_left, 0) - max(row.length - 1 - left, 0) for row in new]
        self.shares = {row.number: count for row, count in zip(new, read, strict=True) if count}
        with self._engine.clock() as clock:
            offsets_Q = torch.arange(-left, -self._columns_left, device=self._engine.device)
            slots_RQ = (self._sequences.length_R[first : first + len(new), None] + offsets_Q).clamp_min(0)
            ids_RQ = self._sequences.tokens_RK[first : first + len(new)].gather(1, slots_RQ)
            extent = max(row.length for row in new) - self._columns_left
            self._cache.forward(Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=extent, keep=0, first=first))
        records = [
            RowPass(row.number, 0, (), 0, row.threshold, "cancelled" if row.control.stopped else None)
            for row in new
            if row.number in self.shares
        ]
        if not self._columns_left:
            self._decoding = len(self._sequences.rows)
        return self._record("prefill", clock.seconds, records)

    def _decode(self) -> ForwardPass:
        """The next tokens of every row whose prompt is read."""
        with self._engine.clock() as clock:
            groups = self._groups()
            self.shares = {number: share for group in groups for number, share in self._shares(group)}
            logits_RWV = self._cache.forward(merge([(group.places, group.window) for group in groups]))
            whole = len(groups) == 1 and list(groups[0].places) == list(range(len(groups[0].places)))
            judgements = [self._judge(group, logits_RWV, whole) for group in groups]
        records = []
        done = []
        for group, judgement in zip(groups, judgements, strict=True):
            for position, place in enumerate(group.places):
                record = self._row_pass(group, position, judgement)
                records.append(record)
                if record.finish_reason is not None:
                    done.append(place)
        if len(groups) == 1:
            [group] = groups
            accepted = sum(record.accepted for record in records)
            group.method.observe(len(records), group.window.keep, clock.seconds, accepted)
        self._drop(done)
        phase: Phase = "verify" if any(group.method.phase == "verify" for group in groups) else "decode"
        return self._record(phase, clock.seconds, records)

    def _groups(self) -> list[Group]:
        """The rows that write, by their methods; those that rest too when otherwise there would be none."""
        rows = list(enumerate(self._sequences.rows[: self._decoding]))
        places: dict[Method, list[int]] = {}
        for place, row in [(place, row) for place, row in rows if not row.resting] or rows:
            places.setdefault(row.method, []).append(place)
        groups = []
        for method, members in places.items():
            batch = self._sequences.batch(members, static=self._engine.static_shapes)
            groups.append(Group(members, batch, method.window(batch), method))
        return groups

    def _judge(self, group: Group, logits_RWV: torch.Tensor, whole: bool) -> Judgement:
        """Accept from the left, keep the proposals, and bring both to the host in one transfer."""
        if not whole:  # the pass had rows of others
            logits_RWV = logits_RWV[torch.tensor(list(group.places), device=logits_RWV.device)]
            logits_RWV = logits_RWV[:, logits_RWV.shape[1] - group.window.keep :]
        verdict = group.method.judge(group.batch, logits_RWV)
        cached = group.method.caches_accepted
        left_RW = verdict.read.ids_RW if verdict.left_RW is None else verdict.left_RW
        self._sequences.settle(group.places, left_RW, verdict.accepted_R, cached=cached)
        return to_host(verdict.accepted_R, verdict.read, verdict.drafts_R)

    def _row_pass(self, group: Group, position: int, judgement: Judgement) -> RowPass:
        """The record of one row; counts its accepted tokens in."""
        row, threshold = group.batch.rows[position], group.batch.thresholds[position]
        accepted, ids = judgement.accepted[position], judgement.ids[position]
        sources = group.method.sources(row, threshold, accepted, group.window.keep)
        columns = zip(ids, judgement.scores[position], sources, judgement.alternatives[position], strict=False)
        proposals = tuple(Proposal(*column) for column in columns)
        start, room = row.written, row.room
        row.written += accepted
        row.gained = accepted
        row.drafted = judgement.drafts[position]
        row.pending = 1 if group.method.caches_accepted else accepted
        reason: FinishReason | None = None
        if ids[accepted - 1] in self._engine.stop_token_ids:
            reason = "stop"
        elif accepted == room:
            reason = "length"
        elif row.control.stopped:
            reason = "cancelled"
        return RowPass(row.number, start, proposals, accepted, threshold, reason)

    def _shares(self, group: Group) -> Iterator[tuple[int, int]]:
        """Each row's number and its own columns, padding left out; without a cache also everything before them."""
        window = group.window
        for row in group.batch.rows:
            extra = window.columns - group.batch.pending - window.keep + group.method.own(row, window.keep)
            yield row.number, extra + (row.pending if self._use_cache else row.length)

    def _drop(self, places: Sequence[int]) -> None:
        """Free these places; the last rows move into them, decoding rows before those whose prompts are read."""
        for place in sorted(places, reverse=True):
            free = place
            if place < self._decoding:
                self._decoding -= 1
                self._move(self._decoding, place)
                free = self._decoding
            self._move(len(self._sequences.rows) - 1, free)
            self._sequences.drop_last()

    def _move(self, source: int, target: int) -> None:
        if source != target:
            self._cache.move(source, target)
            self._sequences.move(source, target)

    def _record(self, phase: Phase, seconds: float, rows: list[RowPass]) -> ForwardPass:
        rows.sort(key=lambda row: row.row)
        return ForwardPass(self._index, phase, seconds, sum(self.shares.values()), tuple(rows))


def decode(
    engine: Engine,
    prompts: Prompts,
    settings: DecodingSettings,
    control: Control,
    method: Method,
    places: int | None = None,
) -> Iterator[ForwardPass]:
    """The records of decoding these prompts, row by row numbered from 0, until all have ended or `control` stops.

    At most `places` rows decode at once (None: all of them); the others wait, in order, for one to end.

    Raises:
        ValueError: before the first record, for `places` below 1.
    """
    if places is not None and places < 1:
        raise ValueError(f"places must be >= 1, got {places}")
    capacity = max(map(len, prompts)) + settings.max_new_tokens + method.lookahead
    pool = Pool(engine, min(places or len(prompts), len(prompts)), capacity, use_cache=settings.use_cache)
    for number, prompt in enumerate(prompts):
        pool.join(Row(number=number, prompt=prompt, method=method, settings=settings, control=control))
    while (record := pool.step()) is not None:
        yield record
