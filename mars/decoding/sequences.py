"""The rows that decode together, as they stand on the device.

Shapes: R rows, K slots, W proposals a row. `tokens_RK` holds a row's tokens by slot (slot p + 1 for position p): the
prompt, what was accepted, and past `length_R` whatever the row's method left there to read next, such as drafts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from mars.config import MAX_BLOCK_SIZE
from mars.decoding.method import Batch, Row
from mars.engine.engine import Rows
from mars.sampling import Sampling


class Sequences:
    """All rows of one run, up to `places` of them with so many slots each; the first `len(rows)` places are taken."""

    def __init__(self, places: int, slots: int, stop_ids: torch.Tensor):
        self.places, self.stop_ids, self.device = places, stop_ids, stop_ids.device
        self.rows: list[Row] = []
        self.tokens_RK = torch.zeros(places, slots, dtype=torch.long, device=self.device)
        self.counts_4R = torch.zeros(4, places, dtype=torch.long, device=self.device)
        self.length_R, self.pending_R, self.written_R, self.room_R = self.counts_4R.unbind()
        self._samplings: dict[tuple[int, ...], Sampling] = {}

    def join(self, row: Row) -> None:
        """Put a new row in the next free place."""
        place = len(self.rows)
        self.tokens_RK[place, 1 : len(row.prompt) + 1] = torch.tensor(list(row.prompt), device=self.device)
        counts = row.length, row.pending, row.written, row.room
        self.counts_4R[:, place] = torch.tensor(counts, device=self.device)
        self.rows.append(row)
        self._samplings.clear()

    def drop(self, places: Sequence[int], cache: Rows) -> None:
        """Free these places, here and in the cache; the last rows move into them."""
        if places:
            drop(places, self.rows, cache, self.tokens_RK, self.counts_4R.T)
            self._samplings.clear()

    def batch(self, places: Sequence[int], *, static: bool = False) -> Batch:
        """These rows, which share a method, for one pass."""
        rows = [self.rows[place] for place in places]
        here = self._index(places)
        length_R, pending_R, written_R, room_R = self.counts_4R[:, here].unbind()
        return Batch(
            rows=rows,
            tokens_RK=self.tokens_RK[here],
            length_R=length_R,
            pending_R=pending_R,
            written_R=written_R,
            room_R=room_R,
            stop_ids=self.stop_ids,
            sampling=self._sampling_of(tuple(places), rows),
            pending=max(rows[0].method.pending if static else 1, *(row.pending for row in rows)),
            drafts=MAX_BLOCK_SIZE if static else max(row.drafted for row in rows),
            room=MAX_BLOCK_SIZE**2 if static else max(row.room for row in rows),
            static=static,
            thresholds=tuple(row.threshold for row in rows),
        )

    def settle(self, places: Sequence[int], ids_RW: torch.Tensor, accepted_R: torch.Tensor, *, cached: bool) -> None:
        """Write the proposals behind each row's last token and count the accepted ones.

        The others stay there for the row's method to read next. `cached` says that this pass has read all accepted
        tokens but the last, so that their keys and values are in place.
        """
        here = self._index(places)
        offsets_W = torch.arange(1, ids_RW.shape[1] + 1, device=self.device)
        slots_RW = self.length_R[here, None] + offsets_W
        if isinstance(here, slice):
            self.tokens_RK[here].scatter_(1, slots_RW, ids_RW)
        else:
            self.tokens_RK[here[:, None], slots_RW] = ids_RW
        self.length_R[here] += accepted_R
        self.written_R[here] += accepted_R
        self.room_R[here] -= accepted_R
        self.pending_R[here] = 1 if cached else accepted_R

    def _index(self, places: Sequence[int]) -> torch.Tensor | slice:
        """The places of the rows; a slice, which needs no copy, if they are the first ones in order."""
        if all(place == expected for expected, place in enumerate(places)):
            return slice(len(places))
        return torch.tensor(list(places), device=self.device)

    def _sampling_of(self, places: tuple[int, ...], rows: Sequence[Row]) -> Sampling:
        """Kept from pass to pass: it changes only when rows join, move or leave."""
        if places not in self._samplings:
            self._samplings[places] = Sampling.of([row.settings for row in rows], self.device)
        return self._samplings[places]


def drop(places: Iterable[int], rows: list[Any], cache: Rows, *tensors: torch.Tensor) -> None:
    """Free these places of `rows`, of the cache and of the tensors; the last rows move into them."""
    for place in sorted(places, reverse=True):
        last = len(rows) - 1
        if place != last:
            cache.move(last, place)
            for tensor in tensors:
                tensor[place] = tensor[last]
            rows[place] = rows[last]
        rows.pop()
