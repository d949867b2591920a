"""Block-cached decoding (arXiv 2604.07023, section 4.5): the paper's decoder for batches, here for comparison.

The cache grows by whole cache blocks of C tokens, counted from the start of the response. Every pass reads the tokens
of the present block so far and masks behind them; a row that has filled its block rests. When all have, one more pass
("commit") reads all tokens but the last into the cache. The first pass of a block reads the token before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from mars.acceptance import HostAcceptResult
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts, check
from mars.decoding.method import Batch, Row
from mars.decoding.pool import Pool
from mars.decoding.sliding_window import SlidingWindow, method_of
from mars.engine import Engine
from mars.engine.window import Window
from mars.records import ForwardPass, RowPass


def block_cached(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """Proposals and threshold as in `sliding_window`; rows wait for each other at the ends of cache blocks.

    In one-token mode the text is that of `autoregressive`. With a threshold it differs from `sliding_window`'s only by
    the windows cut off at the ends of cache blocks. If `control` stops while a row waits, no record of the row says so.
    ValueError at the call, for prompts that are empty or do not fit the context, or a model without masks.
    """
    check(engine, prompts, settings)
    usual = method_of(engine, settings, "block_cached")
    method = BlockCached(mask_token_id=usual.mask_token_id, masks=usual.masks, score=usual.score)
    method = replace(method, calibration=usual.calibration, alternatives=usual.alternatives)
    control = control or Control(settings.threshold, settings.score)
    return _passes(engine, prompts, settings, control, method)


@dataclass(frozen=True, kw_only=True)
class BlockCached(SlidingWindow):
    """A sliding window whose rows read the tokens of their block in each pass."""

    capturable: ClassVar[bool] = False


@dataclass(slots=True, kw_only=True)
class BlockRow(Row):
    """A row whose cache blocks are of `size` tokens; its `limit` is the end of the present one."""

    size: int

    def take(self, engine: Engine, batch: Batch, window: Window, place: int, result: HostAcceptResult) -> RowPass:
        before = 0 if self.written == self.limit - self.size else self.pending
        record = super(BlockRow, self).take(engine, batch, window, place, result)
        self.pending = before + record.accepted
        self.resting = not self.room
        return record

    def commit(self) -> None:
        """Let the next pass read the block into the cache, as if it was a prompt."""
        self.unread, self.pending = self.pending - 1, 1
        self.reading, self.resting = True, False
        self.limit += self.size


def _passes(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control, method: BlockCached
) -> Iterator[ForwardPass]:
    size = settings.cache_block_size
    capacity = max(map(len, prompts)) + settings.max_new_tokens + method.lookahead
    pool = Pool(engine, len(prompts), capacity)
    row_of = partial(BlockRow, method=method, settings=settings, control=control, limit=size, size=size)
    rows = [row_of(number=number, prompt=prompt) for number, prompt in enumerate(prompts)]
    for row in rows:
        pool.join(row)
    while not control.stopped and (record := pool.step()) is not None:
        commits = record.phase == "prefill" and record.rows[0].start > 0
        yield replace(record, phase="commit") if commits else record
        ended = {part.row for part in record.rows if part.finish_reason is not None}
        rows = [row for row in rows if row.number not in ended]
        if all(row.resting for row in rows):
            for row in rows:
                row.commit()
        pool.upload()
