"""Block-cached decoding (arXiv 2604.07023, section 4.5): the paper's decoder for batches, here for comparison.

The cache grows by whole cache blocks of C tokens, counted from the start of the response. Every pass reads the tokens
of the present block so far and masks behind them; a row that has filled its block waits. When all have, one more pass
("commit") reads the C tokens into the cache. The first pass of a block reads the token before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts, check
from mars.decoding.published.lockstep import LockstepBatch, LockstepRow, recorded, rows_of
from mars.decoding.sliding_window import method_of
from mars.decoding.windows import slots_of
from mars.engine import Engine
from mars.records import ForwardPass


def block_cached(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """Proposals and threshold as in `sliding_window`; rows wait for each other at the ends of cache blocks.

    In one-token mode the text is that of `autoregressive`. With a threshold it differs from `sliding_window`'s only by
    the windows cut off at the ends of cache blocks. If `control` stops while a row waits, no record of the row says so.

    Raises:
        ValueError: at the call, for prompts that are empty or do not fit the context, or a model without masks.
    """
    check(engine, prompts, settings)
    method = method_of(engine, settings, "block_cached")
    control = control or Control(settings.threshold, settings.score)
    rows = rows_of(prompts, method, settings, control, limit=settings.cache_block_size)
    return recorded(_passes(engine, rows, settings, control))


def _passes(
    engine: Engine, rows: list[LockstepRow], settings: DecodingSettings, control: Control
) -> Iterator[ForwardPass]:
    capacity = max(row.length for row in rows) + settings.max_new_tokens + rows[0].method.lookahead
    lockstep = LockstepBatch(engine, rows, capacity)
    yield from lockstep.read_prompts()
    while lockstep.rows and not control.stopped:
        waiting = all(row.room == 0 for row in lockstep.rows)
        yield _commit(lockstep, settings.cache_block_size) if waiting else _inner(lockstep, settings.cache_block_size)


def _inner(lockstep: LockstepBatch, size: int) -> ForwardPass:
    """One pass of the rows that have not filled their cache block.

    What they accept is not cached, and joins the block's tokens so far.
    """
    step = lockstep.step()
    parts = []
    for place, row in enumerate(lockstep.rows):
        if row.room:
            part = row.take(lockstep.engine, step.batch, step.window, place, step.result)
            row.pending = part.accepted if part.start == row.limit - size else row.pending + part.accepted
            parts.append(part)
    lockstep.go_on(parts)
    return ForwardPass(0, "decode", step.seconds, step.query_tokens, tuple(parts))


def _commit(lockstep: LockstepBatch, size: int) -> ForwardPass:
    """Cache the block that all rows have filled; the next pass reads its last token again, for the prediction."""
    with lockstep.engine.clock() as clock:
        batch = lockstep.sequences.batch(range(len(lockstep.rows)))
        window = lockstep.forward(slots_of(batch, 0), extent=batch.extent)
    query_tokens = sum(size if lockstep.use_cache else row.length for row in lockstep.rows)
    parts = [row.only_read(window, place) for place, row in enumerate(lockstep.rows)]
    for row in lockstep.rows:
        row.pending = 1
        row.limit += size
    lockstep.go_on()
    return ForwardPass(0, "commit", clock.seconds, query_tokens, tuple(parts))
