"""The rows that decode together, as they stand on the device.

Shapes and slots: as in mars/decoding/method.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mars.acceptance import thresholds
from mars.config import MAX_BLOCK_SIZE, DecodingSettings
from mars.decoding.method import AcceptResult, Batch, Method, Row
from mars.engine.engine import Rows
from mars.sampling import Sampling


@dataclass(slots=True)
class RowTensors:
    """What the device knows of its rows; CUDA graphs read and write it where it lies.

    `live_R` says which rows write in a pass of a graph; nothing else reads it.
    """

    tokens_RK: torch.Tensor
    counts_4R: torch.Tensor
    limits_R: torch.Tensor
    live_R: torch.Tensor
    sampling: Sampling
    stop_ids: torch.Tensor

    @classmethod
    def of(cls, rows: int, slots: int, stop_ids: torch.Tensor) -> RowTensors:
        """Room for so many rows of so many slots, on the device of `stop_ids`."""
        device = stop_ids.device
        return cls(
            tokens_RK=torch.zeros(rows, slots, dtype=torch.long, device=device),
            counts_4R=torch.zeros(4, rows, dtype=torch.long, device=device),
            limits_R=torch.zeros(rows, dtype=torch.float64, device=device),
            live_R=torch.zeros(rows, dtype=torch.bool, device=device),
            sampling=Sampling.of([DecodingSettings()] * rows, device),
            stop_ids=stop_ids,
        )


class Sequences:
    """All rows of one run, up to `places` of them; the first `len(rows)` places are taken."""

    def __init__(self, places: int, tensors: RowTensors):
        self.places, self.device = places, tensors.stop_ids.device
        self.rows: list[Row] = []
        self.tokens_RK, self.counts_4R, self.stop_ids = tensors.tokens_RK, tensors.counts_4R, tensors.stop_ids
        self.length_R, self.pending_R, self.written_R, self.room_R = self.counts_4R.unbind()
        self._sampling = tensors.sampling
        self._limits_R = tensors.limits_R
        self._told: object = None  # what `_limits_R` holds

    def join(self, row: Row) -> None:
        """Put a new row in the next free place."""
        place = len(self.rows)
        self.tokens_RK[place, 1 : len(row.prompt) + 1] = torch.tensor(list(row.prompt), device=self.device)
        counts = row.length, row.pending, row.written, row.room
        self.counts_4R[:, place] = torch.tensor(counts, device=self.device)
        self._sampling.put(place, row.settings)
        self.rows.append(row)

    def upload(self, tokens: int = 0) -> None:
        """Copy the host's counts of all rows to the device, and the last tokens of each response."""
        counts = [(row.length, row.pending, row.written, row.room) for row in self.rows]
        self.counts_4R[:, : len(counts)] = torch.tensor(counts, dtype=torch.long, device=self.device).reshape(-1, 4).T
        for place, row in enumerate(self.rows if tokens else ()):
            last = row.response[-tokens:]
            self.tokens_RK[place, row.length - len(last) + 1 : row.length + 1] = torch.tensor(last, device=self.device)

    def drop(self, places: Sequence[int], cache: Rows) -> None:
        """Free these places, here and in the cache; the last rows move into them."""
        if places:
            drop(places, self.rows, cache, self.tokens_RK, self.counts_4R.T, *self._sampling.tensors)
            self._told = None

    def clear(self) -> None:
        """Free all places. Nothing moves, and the cache keeps what it has."""
        self.rows.clear()
        self._told = None

    def batch(self, places: Sequence[int], *, static: bool = False, first: int | None = None) -> Batch:
        """These rows, which share a method, for one pass; with `first`, with the tensors of so many first places."""
        rows = [self.rows[place] for place in places]
        here = self._index(places) if first is None else slice(first)
        length_R, pending_R, written_R, room_R = self.counts_4R[:, here].unbind()
        active, nucleus = draws(rows)
        values = self.thresholds(places)
        sampling = self._sampling  # which greedy rows do not read
        if active:
            sampling = replace(sampling.select(here), active=True, nucleus=nucleus)
        return Batch(
            rows=rows,
            tokens_RK=self.tokens_RK[here],
            length_R=length_R,
            pending_R=pending_R,
            written_R=written_R,
            room_R=room_R,
            limits_R=self._limits_R[here],
            stop_ids=self.stop_ids,
            sampling=sampling,
            pending=pending_of(rows, static=static),
            drafts=MAX_BLOCK_SIZE if static else max(row.drafted for row in rows),
            room=MAX_BLOCK_SIZE**2 if static else max(row.room for row in rows),
            static=static,
            thresholds=values,
        )

    def thresholds(self, places: Sequence[int]) -> tuple[float | None, ...]:
        """The thresholds in force now; afterwards the device has them, too."""
        values, method = tuple(self.rows[place].threshold for place in places), self.rows[places[0]].method
        if method.uses_threshold and self._told != (told := (*places, *values, method.score)):
            self._limits_R[self._index(places)] = thresholds(values, method.score, self.device)
            self._told = told
        return values

    def judge(
        self,
        places: Sequence[int],
        method: Method,
        batch: Batch,
        logits_RWV: torch.Tensor,
        live_R: torch.Tensor | None = None,
    ) -> AcceptResult:
        """The method's judgement of these rows. Rows that are not in `live_R`, if it is given, stay as they are.

        The proposals are written behind each row's last token, and those that are accepted are counted; the others stay
        there for the row's method to read next.
        """
        result = method.judge(batch, logits_RWV)
        if live_R is not None:
            result = replace(result, accepted_R=result.accepted_R * live_R)
        accepted_R, here = result.accepted_R, self._index(places)
        ids_RW = result.read.ids_RW if result.left_RW is None else result.left_RW
        offsets_W = torch.arange(1, ids_RW.shape[1] + 1, device=self.device)
        slots_RW = self.length_R[here, None] + offsets_W
        pending_R = torch.ones_like(accepted_R) if method.phase == "verify" else accepted_R
        if live_R is not None:  # others write padding to its slot
            slots_RW, ids_RW = (each.masked_fill(~live_R[:, None], 0) for each in (slots_RW, ids_RW))
            pending_R = torch.where(live_R, pending_R, self.pending_R[here])
        if isinstance(here, slice):
            self.tokens_RK[here].scatter_(1, slots_RW, ids_RW)
        else:
            self.tokens_RK[here[:, None], slots_RW] = ids_RW
        self.length_R[here] += accepted_R
        self.written_R[here] += accepted_R
        self.room_R[here] -= accepted_R
        self.pending_R[here] = pending_R
        return result

    def _index(self, places: Sequence[int]) -> torch.Tensor | slice:
        """The places of the rows; a slice, which needs no copy, if they are the first ones in order."""
        if all(place == expected for expected, place in enumerate(places)):
            return slice(len(places))
        return torch.tensor(list(places), device=self.device)


def pending_of(rows: Sequence[Row], *, static: bool) -> int:
    """The columns of real tokens that the window of these rows needs; in static shapes, one of few numbers."""
    most, usual = max(row.pending for row in rows), rows[0].method.pending
    return most if not static else usual if most <= usual else 1 << (most - 1).bit_length()


def draws(rows: Iterable[Row]) -> tuple[bool, bool]:
    """Whether any row draws its tokens, and whether any of those does so from a nucleus."""
    drawing = [row.settings for row in rows if row.settings.temperature > 0]
    return bool(drawing), any(settings.top_p < 1 for settings in drawing)


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
