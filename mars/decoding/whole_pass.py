"""Whole passes of static shape, from the window to the accepted tokens: a CUDA graph can hold all of it.

On a GPU the operations by which a pass builds its window and judges its proposals take longer to launch than a small
model takes to run. In a graph they are launched at once. The slow twin is the way of `Pool`, which launches each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from mars.acceptance import HostAcceptResult, packed, unpacked
from mars.decoding.method import Batch, Method
from mars.decoding.sequences import RowTensors, Sequences
from mars.engine.engine import CachedRows, Rows
from mars.engine.graphs import Runner, rounded_extent, rounded_rows
from mars.engine.window import Window


class WholePasses:
    """The whole passes of the rows in `sequences`, on tensors that stay with the graphs of `cache`."""

    def __init__(self, cache: CachedRows, runner: Runner, sequences: Sequences, tensors: RowTensors):
        self._cache, self._memory, self._sequences = cache, runner.memory, sequences
        self._live_R = tensors.live_R
        self._live: Sequence[int] = ()
        self._live_R.fill_(False)

    def take(self, places: Sequence[int]) -> tuple[Batch, Window, HostAcceptResult] | None:
        """Make the pass of the rows in these places, ascending; None if they share no method, or no graph can hold it.

        Batch and window say how it was made; the window's tensors are not this pass's.

        Raises:
            ValueError: when the logits were not numbers.
        """
        rows = [self._sequences.rows[place] for place in places]
        method = rows[0].method
        if not method.capturable or any(row.method != method or row.control.trace for row in rows):
            return None
        count = rounded_rows(places[-1] + 1, self._memory.rows)
        batch = self._sequences.batch(places, static=True, first=count)
        if batch.sampling.active and batch.sampling.nucleus:  # on a GPU it takes a sort, which is never captured
            return None
        self._set_live(places)
        extent = min(rounded_extent(batch.extent + method.lookahead), self._memory.slots)
        one_token = set(batch.thresholds) == {None}
        key = method, count, batch.pending, extent, one_token, batch.sampling.active
        table_RN, alternatives, window = self._cache.run(key, extent, lambda: self._pass(batch, method, extent))
        table = table_RN[: places[-1] + 1].tolist()
        return batch, window, unpacked([table[place] for place in places], alternatives)

    def _pass(self, batch: Batch, method: Method, extent: int) -> tuple[torch.Tensor, int, Window]:
        """What a graph holds: the pass, with its table (`packed`), the count of alternatives in it, and the window.

        Rows that do not take part are padding.
        """
        live_R = self._live_R[: len(batch.length_R)]
        batch = replace(batch, length_R=batch.length_R * live_R, pending_R=batch.pending_R * live_R)
        window = method.window(batch)
        slots_RQ = window.slots_RQ.masked_fill(~live_R[:, None], 0)
        window = replace(window, slots_RQ=slots_RQ, extent=extent)
        logits_RWV = self._cache.read(window)
        batch.states = self._cache.states
        result = method.judge(batch, logits_RWV)
        accepted_R = result.accepted_R * live_R
        left_RW = result.read.ids_RW if result.left_RW is None else result.left_RW
        places = range(len(live_R))
        self._sequences.settle(places, left_RW, accepted_R, cached=method.caches_accepted, live_R=live_R)
        listed = result.read.alternatives
        count = 0 if listed is None else listed[0].shape[-1]
        return packed(accepted_R, result.read, result.drafts_R), count, window

    def _set_live(self, places: Sequence[int]) -> None:
        if self._live != places:
            self._live = places
            live = set(places)
            flags = [place in live for place in range(len(self._live_R))]
            self._live_R.copy_(torch.tensor(flags))


def row_tensors(cache: Rows, places: int, slots: int, stop_ids: torch.Tensor) -> RowTensors:
    """Tensors for the rows of a cache; where graphs can hold whole passes, they stay with these."""
    runner = _runner_of(cache)
    if runner is None:
        return RowTensors.of(places, slots, stop_ids)
    if runner.beside is None:
        runner.beside = RowTensors.of(runner.memory.rows, runner.memory.slots, stop_ids)
    kept: RowTensors = runner.beside
    return kept


def whole_passes(cache: Rows, sequences: Sequences, tensors: RowTensors) -> WholePasses | None:
    """The whole passes of rows with the tensors of `row_tensors`; None where no graph can hold one."""
    runner = _runner_of(cache)
    if runner is None or not isinstance(cache, CachedRows):
        return None
    return WholePasses(cache, runner, sequences, tensors)


def _runner_of(cache: Rows) -> Runner | None:
    return cache.runner if isinstance(cache, CachedRows) else None
