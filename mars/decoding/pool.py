"""Rows that decode together: each joins, decodes pass by pass and leaves, and none waits for another.

Every decoder that is a `Method` runs here, alone (`decode`) or beside rows of other methods. Places 0 to n - 1 of the
cache are taken. When a row leaves, the last one takes its place, so that a pass works on neighbours and copies no cache
but that one row's.

Prompts are read in two ways. Those of one run are read together, and their rows start to write together. With `beside`,
for requests that come and go, each prompt is read in small chunks between the passes of the rows that write, and its
row starts as soon as it is read. If another prompt with the same beginning is cached, that part is copied.

Where CUDA graphs may stand in for passes, a prompt that is read alone is read in a spare row of the cache and copied to
its place: a graph belongs to the row that it was captured for, and so one serves all places. With `beside` all prompts
are read there, one at a time, in the order of their numbers and in large chunks: a GPU waits for launches, not columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch

from mars.acceptance import HostAcceptResult, to_host
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Decoder, Prompts, check
from mars.decoding.method import Batch, Method, Row
from mars.decoding.policy import MEASURED, Policy
from mars.decoding.sequences import RowTensors, Sequences
from mars.engine import Engine
from mars.engine.backends import kernels
from mars.engine.engine import CachedRows
from mars.engine.window import Window, merge
from mars.records import ForwardPass, Phase, RowPass

PREFILL_CHUNK = 512
BESIDE_CHUNK = 64  # columns that hold up the rows that write: a few times what their own pass takes, but not on a GPU
FEWEST_BESIDE = 8  # of each prompt, so that many prompts that are read at once come to an end
PREPARED = 1024  # tokens of a row up to which graphs are captured before it comes; those of longer texts follow
KEPT = 4  # beginnings of prompts that stay in the cache after their rows have left
SHORTEST_SHARED = 8  # to copy fewer tokens than that saves nothing; the template of a chat alone begins with some 24


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one method in one pass: their places, in order, and what they forward."""

    places: Sequence[int]
    batch: Batch
    window: Window
    method: Method


class Beginnings:
    """Prompts whose keys and values stay in spare rows of the cache; the least recently used one is replaced first."""

    def __init__(self, places: Iterable[int]) -> None:
        self._kept: dict[int, Sequence[int]] = dict.fromkeys(places, ())

    def longest(self, prompt: Sequence[int], others: Sequence[tuple[int, Sequence[int]]]) -> tuple[int | None, int]:
        """The row that has the longest beginning of `prompt` cached, and its length; None if none is long enough.

        `others` are occupied rows with their cached tokens.
        """
        best: int | None = None
        most = SHORTEST_SHARED - 1
        for place, tokens in (*others, *self._kept.items()):
            if (length := shared_tokens(prompt, tokens)) > most:
                best, most = place, length
        if best is None:
            return None, 0
        if best in self._kept:
            self._kept[best] = self._kept.pop(best)
        return best, most

    def place(self, prompt: Sequence[int]) -> int | None:
        """The spare row for `prompt`, which has just been read; None if most of it is kept, or it is too short."""
        most = max((shared_tokens(prompt, tokens) for tokens in self._kept.values()), default=0)
        if len(prompt) < SHORTEST_SHARED or 2 * most > len(prompt) or not self._kept:
            return None
        place = next(iter(self._kept))
        del self._kept[place]
        self._kept[place] = prompt
        return place


def shared_tokens(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """The number of tokens that both texts begin with."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((place for place, (mine, other) in pairs if mine != other), min(len(ours), len(theirs)))


class Pool:
    """Up to `places` rows of up to `capacity` slots on one engine; `step` makes one call of the model.

    With `beside` prompts are read as described above. `shares` has, by row number, the positions that the last call
    computed for each of its rows. It is empty until the call is made, so after an error in `step` it tells whose rows
    took part. `layouts` are those of the last pass (`Method.layout_name`), none if it read prompts. `refused` counts
    the requests since then that could not even wait; to the policy they are as good as waiting. The `policy` chooses
    what rows spend in each pass; without one, the pool makes one for the first row whose method adapts.
    """

    def __init__(
        self,
        engine: Engine,
        places: int,
        capacity: int,
        *,
        beside: bool = False,
        policy: Policy | None = None,
    ):
        stop_ids = torch.tensor(sorted(engine.stop_token_ids), dtype=torch.long, device=engine.device)
        self._engine, self._capacity = engine, capacity
        kept = KEPT if beside else 0
        spare = engine.static_shapes and (beside or places > 1)
        self._cache = engine.open(places + kept + spare, capacity)
        self._runner = self._cache.runner if isinstance(self._cache, CachedRows) else None
        graphs = kernels("cuda.whole_pass") if self._runner is not None else None
        self._staging = places + kept if spare and graphs is not None else None
        self._staged: Row | None = None  # whose prompt the spare row has, as far as it is read
        self._beginnings = Beginnings(range(places, places + kept))
        own = graphs and graphs.row_tensors(self._runner, stop_ids)
        tensors = own or RowTensors.of(places, capacity + 1, stop_ids)
        self._sequences = Sequences(places, tensors)
        self._whole_passes = graphs and graphs.WholePasses(self._cache, self._sequences, tensors)
        self._waiting: deque[Row] = deque()
        self._beside = beside
        self._decoded_last = False
        self._drafted = 0
        self._policy = policy
        self._index = 0
        self.refused = 0
        self.shares: dict[int, int] = {}
        self.layouts: set[str] = set()

    @property
    def rows(self) -> int:
        """The number of rows in the pool, those that wait for a place included."""
        return len(self._sequences.rows) + len(self._waiting)

    def join(self, row: Row) -> None:
        """Take in a row before the next pass, or as soon as there is a place."""
        row.template_ids = self._engine.template_ids
        row.unread = row.length - 1  # the first decode pass reads the last token
        self._consult(row.method)
        others = chain(self._sequences.rows, self._waiting)
        if self._policy is not None and all(other.control.stopped for other in others):
            self._policy.restart()
        self._waiting.append(row)

    def leave(self, numbers: Collection[int]) -> None:
        """Free the places of the rows with these numbers."""
        places = [place for place, row in enumerate(self._sequences.rows) if row.number in numbers]
        self._sequences.drop(places, self._cache)

    def upload(self, tokens: int = 0) -> None:
        """Go on with the counts that the host has given the rows, and with the last tokens of each response."""
        self._sequences.upload(tokens)

    def prepare(self, method: Method, threshold: float | None) -> None:
        """Before a row of this method comes, capture the graphs of its passes, or else measure them for the policy."""
        if self.rows:
            return
        self._consult(method)
        if self._runner is None and self._policy is not None and method.adapts:
            self._measure(self._policy)
        if self._whole_passes is None or self._runner is None or not self._runner.captures:
            return
        ways = [(method, threshold)] if self._policy is None else self._policy.ways(method, threshold)
        tokens = min(self._capacity, PREPARED)
        self._whole_passes.prepare(ways, tokens)
        if self._staging is not None:
            self._whole_passes.prepare_prompts(self._staging, tokens)

    def _measure(self, policy: Policy) -> None:
        """Let the policy know what passes of some columns take, with masks and without."""
        mask = self._engine.mask_token_id
        widths = [width for width in MEASURED if width <= self._capacity]
        for width in 4 * widths:  # in turns, since what interrupts one pass interrupts the next, too
            slots_RQ = torch.arange(1, width + 1, device=self._engine.device)[None]
            for masks in (0, width - 1) if mask is not None and width > 1 else (0,):
                ids_RQ = torch.zeros_like(slots_RQ)
                ids_RQ[:, width - masks :] = 0 if mask is None else mask
                window = Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=width + 1, keep=width)
                with self._engine.clock() as clock:
                    self._cache.forward(window)
                policy.times.took(width, clock.seconds, masked=masks > 0)

    def _consult(self, method: Method) -> None:
        """Make a policy for this method, if it needs one and there is none."""
        if self._policy is None and method.adapts:
            self._policy = Policy(self._engine)

    def step(self) -> ForwardPass | None:
        """One pass: a chunk of new prompts, or the next tokens of the other rows; with both, they alternate.

        Rows whose control has stopped are dropped first.

        Returns: the record, or None when no row is left.
        """
        self.shares = {}
        self.layouts = set()
        self.leave({row.number for row in self._sequences.rows if row.control.stopped})
        self._admit()
        rows = self._sequences.rows
        if not rows:
            return None
        reading = [place for place, row in enumerate(rows) if row.reading]
        reads_prompts = bool(reading) and (self._decoded_last or all(row.reading or row.resting for row in rows))
        self._decoded_last = not reads_prompts
        record = self._prefill(reading) if reads_prompts else self._decode()
        self._index += 1
        return record

    def _admit(self) -> None:
        """Give waiting rows a place; without `beside`, not while prompts are read: those start together."""
        self._start()
        if not self._beside and any(row.reading for row in self._sequences.rows):
            return
        while self._waiting and len(self._sequences.rows) < self._sequences.places:
            row = self._waiting.popleft()
            if row.control.stopped:
                continue
            place = len(self._sequences.rows)
            row.reading = True
            if self._beside:
                self._copy_beginning(place, row)
            self._sequences.join(row)
            row.method.begin(row, self._sequences.tokens_RK[place])
        self._start()

    def _start(self) -> None:
        """Let rows start to write when their prompts are read."""
        reading = [row for row in self._sequences.rows if row.reading]
        together = not any(row.unread for row in reading)
        for row in reading:
            row.reading = row.unread > 0 if self._beside else not together

    def _copy_beginning(self, place: int, row: Row) -> None:
        """Copy the longest cached beginning of this row's prompt from another row to this place."""
        read = [
            (other, one.prompt[: len(one.prompt) - 1 - one.unread]) for other, one in enumerate(self._sequences.rows)
        ]
        source, length = self._beginnings.longest(row.prompt[:-1], read)
        if source is not None:
            self._cache.copy(source, place, length)
            row.unread -= length

    def _prefill(self, reading: Sequence[int]) -> ForwardPass:
        """Put the next chunk of these rows' prompts, aligned on their right ends, or of one alone into the cache."""
        alone = len(reading) == 1 and not self._sequences.rows[reading[0]].written
        staging = self._staging if self._beside or alone else None
        if staging is not None:
            reading = [min(reading, key=lambda place: self._sequences.rows[place].number)]
        rows = [self._sequences.rows[place] for place in reading]
        counts = self._chunk([row.unread for row in rows])
        self.shares = {row.number: count for row, count in zip(rows, counts, strict=True) if count}
        with self._engine.clock() as clock:
            if staging is None:
                window = self._reading(reading, rows, counts)
                self._cache.forward(window)
            else:
                window = self._read_staged(staging, reading[0], rows[0], counts[0])
        pairs = zip(reading, rows, strict=True)
        records = [row.only_read(window, place - reading[0]) for place, row in pairs if row.number in self.shares]
        for place, row, count in zip(reading, rows, counts, strict=True):
            row.unread -= count
            kept = self._beginnings.place(row.prompt[:-1]) if self._beside and not row.unread else None
            if kept is not None:
                self._cache.copy(place, kept, len(row.prompt) - 1)
        return self._record("prefill", clock.seconds, records)

    def _chunk(self, unread: Sequence[int]) -> list[int]:
        """The tokens of each prompt that the next pass reads: all prompts end in the same pass, or each by itself."""
        if not self._beside:
            left = max(max(unread) - PREFILL_CHUNK, 0)
            return [count - min(count, left) for count in unread]
        writing = len(self._sequences.rows) - len(unread) if self._staging is None else 0
        beside = BESIDE_CHUNK + self._drafted  # so prompts are read as fast as beside rows that spend nothing
        most = max(beside // len(unread), FEWEST_BESIDE) if writing else PREFILL_CHUNK
        return [min(count, most) for count in unread]

    def _reading(self, places: Sequence[int], rows: Sequence[Row], counts: Sequence[int]) -> Window:
        """The window of so many tokens of each prompt, the next that are not cached."""
        device = self._engine.device
        ends = [row.length - row.unread + count for row, count in zip(rows, counts, strict=True)]
        offsets_Q = torch.arange(-max(counts), 0, device=device)
        slots_RQ = torch.tensor(ends, device=device)[:, None] + offsets_Q
        slots_RQ.masked_fill_(offsets_Q < -torch.tensor(counts, device=device)[:, None], 0)
        first = places[0]
        tokens_RK = self._sequences.tokens_RK[first : places[-1] + 1]
        here = [place - first for place in places]
        if len(here) < len(tokens_RK):
            tokens_RK = tokens_RK[torch.tensor(here, device=device)]
        ids_RQ = tokens_RK.gather(1, slots_RQ)
        window = Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=max(ends), keep=0)
        return replace(merge([(here, window)]), first=first)

    def _read_staged(self, staging: int, place: int, row: Row, count: int) -> Window:
        """Read so many tokens of a prompt in the spare row; its place gets all that is read so far. The window."""
        read = len(row.prompt) - 1 - row.unread
        if self._staged is not row and read:
            self._cache.copy(place, staging, read)
        self._staged = row
        start, end = read + 1, read + 1 + count
        window = Window(
            ids_RQ=self._sequences.tokens_RK[place : place + 1, start:end],
            slots_RQ=torch.arange(start, end, device=self._engine.device)[None],
            extent=end,
            keep=0,
            first=staging,
        )
        self._cache.forward(window)
        self._cache.copy(staging, place, read + count)
        return window

    def _decode(self) -> ForwardPass:
        with self._engine.clock() as clock:
            self._schedule()
            groups, results = self._replay() or self._forward()
        self._drafted = sum(self.shares.values()) - len(self.shares)
        for group in groups:
            self.layouts.update(map(group.method.layout_name, group.batch.rows))
        records = []
        for group, result in zip(groups, results, strict=True):
            for position, row in enumerate(group.batch.rows):
                records.append(row.take(self._engine, group.batch, group.window, position, result))
        if self._policy is not None:
            taking = [row for group in groups for row in group.batch.rows]
            masked = any(any(row.plan.masks) for row in taking)
            seconds = None if self._cache.warming else clock.seconds
            self._policy.observe(taking, sum(self.shares.values()), seconds, masked=masked)
        self.leave({record.row for record in records if record.finish_reason is not None})
        phase: Phase = "verify" if any(group.method.phase == "verify" for group in groups) else "decode"
        return self._record(phase, clock.seconds, records)

    def _schedule(self) -> None:
        if self._policy is None:
            return
        writing = [row for row in self._sequences.rows if not row.reading]
        waiting = sum(not row.control.stopped for row in self._waiting) + self.refused
        self.refused = 0
        reading = len(self._sequences.rows) - len(writing)
        self._policy.plan(writing, reading=reading, waiting=waiting, places=self._sequences.places)

    def _replay(self) -> tuple[list[Group], list[HostAcceptResult]] | None:
        """The pass as a graph holds it; None if none can."""
        if self._whole_passes is None:
            return None
        writing = self._writing()
        self.shares = {self._sequences.rows[place].number: 1 for place in writing}
        whole = self._whole_passes.take(writing)
        if whole is None:
            return None
        batch, window, result = whole
        group = Group(writing, batch, window, batch.rows[0].method)
        self.shares = dict(self._shares(group))
        return [group], [result]

    def _forward(self) -> tuple[list[Group], list[HostAcceptResult]]:
        """The windows of all methods, one call of the model, and each method's judgement."""
        groups = self._groups()
        self.shares = {number: share for group in groups for number, share in self._shares(group)}
        logits_RWV = self._cache.forward(merge([(group.places, group.window) for group in groups]))
        whole = len(groups) == 1 and list(groups[0].places) == list(range(len(groups[0].places)))
        return groups, [self._judge(group, logits_RWV, whole) for group in groups]

    def _writing(self) -> list[int]:
        """The places of the rows that write; resting rows take part only if all rest."""
        places = [place for place, row in enumerate(self._sequences.rows) if not row.reading]
        return [place for place in places if not self._sequences.rows[place].resting] or places

    def _groups(self) -> list[Group]:
        places: dict[Method, list[int]] = {}
        for place in self._writing():
            places.setdefault(self._sequences.rows[place].method, []).append(place)
        groups = []
        for method, members in places.items():
            batch = self._sequences.batch(members, static=self._engine.static_shapes)
            method.plan(batch)
            groups.append(Group(members, batch, method.window(batch), method))
        return groups

    def _judge(self, group: Group, logits_RWV: torch.Tensor, whole: bool) -> HostAcceptResult:
        """Accept from the left, keep the proposals, and bring both to the host in one transfer."""
        if not whole:  # the pass had rows of others
            rows = torch.tensor(list(group.places), device=logits_RWV.device)
            logits_RWV = logits_RWV[rows][:, logits_RWV.shape[1] - group.window.keep :]
        result = self._sequences.judge(group.places, group.method, group.batch, logits_RWV)
        return to_host(result.accepted_R, result.read, result.drafts_R)

    def _shares(self, group: Group) -> Iterator[tuple[int, int]]:
        """Each row's number and its count of columns, without padding."""
        window = group.window
        for row in group.batch.rows:
            extra = window.columns - group.batch.pending - window.keep + row.plan.columns
            yield row.number, extra + row.pending

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

    At most `places` rows decode at once (None: all of them); the others wait, in order, for one to end. ValueError
    before the first record, for `places` below 1.
    """
    if places is not None and places < 1:
        raise ValueError(f"places must be >= 1, got {places}")
    capacity = max(map(len, prompts)) + settings.max_new_tokens + method.lookahead
    places = min(places or len(prompts), len(prompts))
    pool = Pool(engine, places, capacity)
    for number, prompt in enumerate(prompts):
        pool.join(Row(number=number, prompt=prompt, method=method, settings=settings, control=control))
    while (record := pool.step()) is not None:
        yield record


def decoder_of(method_of: Callable[[Engine, DecodingSettings], Method]) -> Decoder:
    """The decoder whose rows run in a pool of their own, by the method that the settings of each run ask for."""

    def decoder(
        engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
    ) -> Iterator[ForwardPass]:
        check(engine, prompts, settings)
        control = control or Control(settings.threshold, settings.score)
        return decode(engine, prompts, settings, control, method_of(engine, settings))

    return decoder
