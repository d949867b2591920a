"""Whole passes of static shape, from the window to the accepted tokens: a CUDA graph can hold all of it.

On a GPU the operations by which a pass builds its window and judges its proposals take longer to launch than a small
model takes to run. In a graph they are launched at once. The slow twin is the way of `Pool`, which launches each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from mars.acceptance import HostAcceptResult, packed, unpacked
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.method import Batch, Method, Row
from mars.decoding.sequences import RowTensors, Sequences, draws, pending_of
from mars.engine.backends import WARM_UPS
from mars.engine.engine import CachedRows
from mars.engine.memory import rounded_extent
from mars.engine.window import Window
from mars_kernels.cuda.graphs import Runner, reaches_to, read_widths, rounded_rows


@dataclass(frozen=True, slots=True)
class _Pass:
    """What a pass leaves: the table of `packed`, with so many alternatives, and the batch and window it was made by."""

    table_RN: torch.Tensor
    alternatives: int
    batch: Batch
    window: Window


class WholePasses:
    """The whole passes of the rows in `sequences`, on tensors that stay with the graphs of `cache`."""

    def __init__(self, cache: CachedRows, sequences: Sequences, tensors: RowTensors):
        self._cache, self._memory, self._sequences = cache, cache.runner.memory, sequences
        self._live_R = tensors.live_R
        self._live: Sequence[int] = ()
        self._live_R.fill_(False)

    def take(self, places: Sequence[int]) -> tuple[Batch, Window, HostAcceptResult] | None:
        """Make the pass of the rows in these places, ascending; None if they share no method, or no graph can hold it.

        Batch and window say how it was made; their tensors are not this pass's.

        Raises:
            ValueError: when the logits were not numbers.
        """
        rows = [self._sequences.rows[place] for place in places]
        method, (active, nucleus) = rows[0].method, draws(rows)
        if not method.capturable or any(row.method != method or row.control.trace for row in rows):
            return None
        if nucleus:  # on a GPU it takes a sort, which is never captured
            return None
        self._set_live(places)
        values = self._sequences.thresholds(places)
        count = rounded_rows(places[-1] + 1, self._memory.rows)
        reach = 1 + max(row.length for row in rows) + method.lookahead
        extent = min(rounded_extent(reach), self._memory.slots)
        key = method, count, pending_of(rows, static=True), extent, set(values) == {None}, active
        made = self._cache.run(key, extent, lambda: self._pass(places, count, extent))
        table = made.table_RN[: places[-1] + 1].tolist()
        result = unpacked([table[place] for place in places], made.alternatives)
        batch = replace(made.batch, rows=rows, thresholds=values)
        method.plan(batch)
        return batch, made.window, result

    def prepare(self, ways: Sequence[tuple[Method, float | None]], capacity: int) -> None:
        """Make the passes of these methods, each with a threshold or none, until their graphs are captured.

        That takes three slow passes for each shape: requests that come later need not wait for them. There must be
        no rows, of which each may have `capacity` tokens, and there are none afterwards.
        """
        most = self._sequences.places
        counts = sorted({min(rounded_rows(places, self._memory.rows), most) for places in range(1, most + 1)})
        for method, threshold in ways:
            settings, control = DecodingSettings(), Control(threshold, method.score)
            for reach in reaches_to(capacity + 1, self._memory.slots):
                prompt = (0,) * max(reach - 1 - method.lookahead, 1)
                row = Row(number=-1, prompt=prompt, method=method, settings=settings, control=control)
                for count in counts * (WARM_UPS + 1):
                    for place in range(count):
                        self._sequences.join(row)
                        method.begin(row, self._sequences.tokens_RK[place])
                    self.take(range(count))
                    self._sequences.clear()

    def prepare_prompts(self, row: int, capacity: int) -> None:
        """Read prompts of any length up to `capacity` in this row of the cache, until their graphs are captured."""
        for width in read_widths():
            for reach in reaches_to(capacity + 1, capacity + 1):
                end = max(reach, width + 1)
                if end > capacity + 1:
                    continue
                slots_RQ = torch.arange(end - width, end, device=self._sequences.device)[None]
                ids_RQ = torch.zeros_like(slots_RQ)
                window = Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=end, keep=0, first=row)
                for _ in range(WARM_UPS + 1):
                    self._cache.forward(window)

    def _pass(self, places: Sequence[int], count: int, extent: int) -> _Pass:
        """What a graph holds: the pass of the first `count` places. Rows that do not take part are padding."""
        whole = self._sequences.batch(places, static=True, first=count)
        method = whole.rows[0].method
        live_R = self._live_R[:count]
        batch = replace(whole, length_R=whole.length_R * live_R, pending_R=whole.pending_R * live_R)
        window = method.window(batch)
        slots_RQ = window.slots_RQ.masked_fill(~live_R[:, None], 0)
        window = replace(window, slots_RQ=slots_RQ, extent=extent)
        logits_RWV = self._cache.read(window)
        result = self._sequences.judge(range(count), method, batch, logits_RWV, live_R)
        listed = result.read.alternatives
        alternatives = 0 if listed is None else listed[0].shape[-1]
        table_RN = packed(result.accepted_R, result.read, result.drafts_R)
        return _Pass(table_RN, alternatives, replace(batch, rows=[]), window)

    def _set_live(self, places: Sequence[int]) -> None:
        if self._live != places:
            self._live = places
            live = set(places)
            flags = [place in live for place in range(len(self._live_R))]
            self._live_R.copy_(torch.tensor(flags))


def row_tensors(runner: Runner, stop_ids: torch.Tensor) -> RowTensors:
    """Tensors for the rows of a cache, which stay with the graphs of its whole passes."""
    if runner.beside is None:
        runner.beside = RowTensors.of(runner.memory.rows, runner.memory.slots, stop_ids)
    kept: RowTensors = runner.beside
    return kept
