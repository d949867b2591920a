"""All layers of a pass in one call, on CPUs for which there are kernels of our own (mars/engine/tiles.py).

Torch's own threads go through the layers together, each with its share of every step, and wait for each other between
two steps. Its slow twin, mars/engine/compiled.py, makes thirteen calls a layer, which took a third of the time of a
pass. Weights are asked for ahead of their product, those of the next one while the last is finished. In 8 bits the
rows are rounded before each product; what the adapter adds is multiplied with the rows as they were.

Half a layer ends with keys and values in the cache; the other one goes on from the queries, which may be fewer then.
Shapes: N columns, E hidden size, F inner size, I and O input and output features, L layers, H heads of D numbers, S
rank.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from numba import carray, cfunc, njit, types

from mars.engine import kernels
from mars.engine.adapter import Adapter, LowRank
from mars.engine.compiled import Seen, task_of
from mars.engine.gated import PRODUCTS
from mars.engine.heads import attend, head_kind, place
from mars.engine.tile_layout import BYTES, DEPTH, SCRATCH, TILE, pack, scratch
from mars.engine.tiles import NO_LOW_RANK, NO_SCALES, Tiled, begin_tiles, coarse_kind, end_tiles, product, rows_dtype
from mars.engine.workers import Openmp, openmp

# Numbers of a product in the table: weights, scales, bias, A, B, tiles of a rank, where the next parts begin.
_PRODUCT = 8
_OWN = 3  # of them without an adapter
_LAYER = 2 + 4 * _PRODUCT  # the two norms come first
_NOWHERE = 2**40


@njit(**kernels.OPTIONS)
def _multiply(kind, begin, end, rows, depth, outputs, x, whole, weights, masks, inner, found, totals, ahead):  # type: ignore[no-untyped-def]
    """Blocks `begin` to `end` of a product, with what the adapter adds at masks.

    `whole` are the addresses of x in 8 bits and of its scales, or 0 and 0; `weights` are numbers of the table.
    """
    weight, bias, a, b = weights[0], weights[2], weights[3], weights[4]
    ranks, second, third = weights[5], weights[6], weights[7]
    low_rank = NO_LOW_RANK
    if masks and b:
        # Each thread computes all of A x: that takes less time than to wait for the others.
        parts = 1 + (1 if second < _NOWHERE else 0) + (1 if third < _NOWHERE else 0)
        blocks, span = parts * ranks, depth * BYTES
        coarse_depth, own = 2 * depth if whole[0] else depth, (weight + begin * span, span)
        product(
            *(coarse_kind(kind), 0, blocks, rows, coarse_depth, TILE * blocks, x, a, NO_SCALES, 0),
            *(masks, inner, low_rank, totals, own),
        )
        low_rank = b, inner, ranks, second, third, parts
    read, scales = (whole[0], (whole[1], weights[1])) if whole[0] else (x, NO_SCALES)
    product(*(kind, begin, end, rows, depth, outputs, read, weight, scales, bias, 0, found, low_rank, totals, ahead))


@njit(**kernels.OPTIONS)
def _blocks(outputs, thread, threads):  # type: ignore[no-untyped-def]
    """One thread's share of the blocks of outputs."""
    blocks = outputs // TILE
    return blocks * thread // threads, blocks * (thread + 1) // threads


@njit(**kernels.OPTIONS)
def _share(kind, given):  # type: ignore[no-untyped-def]
    """One thread's share of some steps; the numbers are those that `Fused._run` gives."""
    thread, threads, barrier = kernels.call(given[0]), kernels.call(given[1]), given[2]
    step, end, rows = given[3], given[4], given[5]
    hidden_size, inner_size, width, attended_size = given[6], given[7], given[8], given[9]
    epsilon = kernels.at(given[10], (1,), kernels.WIDE)[0]
    hidden, normed, found, attended, added, both, inner = given[11:18]
    masks, low = given[18], given[19] + given[20] * thread
    table = kernels.at(given[21], (given[22], _LAYER), kernels.PLACE)
    place_task, place_data, attend_task, attend_data, stride = given[23], given[24], given[25], given[26], given[27]
    whole, scales = given[28], given[29]
    rounded, depth = (whole, scales), 2 * DEPTH if whole else DEPTH
    own = kernels.rows_of(kind)
    totals = given[30] + SCRATCH * thread
    first, last = rows * thread // threads, rows * (thread + 1) // threads
    hidden_depth, inner_depth, attended_depth = hidden_size // depth, inner_size // depth, attended_size // depth
    hidden_span, inner_span, attended_span = hidden_depth * BYTES, inner_depth * BYTES, attended_depth * BYTES
    q0, q1 = _blocks(width, thread, threads)
    o0, o1 = _blocks(hidden_size, thread, threads)
    f0, f1 = _blocks(inner_size, thread, threads)
    ups = inner_size // TILE
    begin_tiles(kind, rows, totals)
    while step < end:
        layer = step // 2
        weights = table[layer]
        into, out = weights[2 : 2 + _PRODUCT], weights[2 + _PRODUCT : 2 + 2 * _PRODUCT]
        gate_up, down = weights[2 + 2 * _PRODUCT : 2 + 3 * _PRODUCT], weights[2 + 3 * _PRODUCT :]
        if step % 2 == 0:
            kernels.norm(first, last, own, hidden, added if layer else 0, weights[0], normed, hidden_size, epsilon)
            if whole:
                kernels.rounded(first, last, kernels.COARSE, normed, whole, scales, hidden_size)
            kernels.call_with(barrier, 0)
            next_weights = out[0] + o0 * attended_span
            _multiply(
                *(kind, q0, q1, rows, hidden_depth, width, normed, rounded, into),
                *(masks, low, found, totals, (next_weights, attended_span)),
            )
            kernels.call_with(barrier, 0)
            kernels.call_with(place_task, place_data + stride * layer)
        else:
            kernels.call_with(attend_task, attend_data + stride * layer)
            kernels.call_with(barrier, 0)
            if whole:
                kernels.rounded(first, last, kernels.COARSE, attended, whole, scales, attended_size)
                kernels.call_with(barrier, 0)
            next_weights = gate_up[0] + f0 * hidden_span
            _multiply(
                *(kind, o0, o1, rows, attended_depth, hidden_size, attended, rounded, out),
                *(masks, low, added, totals, (next_weights, hidden_span)),
            )
            kernels.call_with(barrier, 0)
            kernels.norm(first, last, own, hidden, added, weights[1], normed, hidden_size, epsilon)
            if whole:
                kernels.rounded(first, last, kernels.COARSE, normed, whole, scales, hidden_size)
            kernels.call_with(barrier, 0)
            next_weights = gate_up[0] + (ups + f0) * hidden_span
            _multiply(
                *(kind, f0, f1, rows, hidden_depth, 2 * inner_size, normed, rounded, gate_up),
                *(masks, low, both, totals, (next_weights, hidden_span)),
            )
            next_weights = down[0] + o0 * inner_span
            _multiply(
                *(kind, ups + f0, ups + f1, rows, hidden_depth, 2 * inner_size, normed, rounded, gate_up),
                *(masks, low, both, totals, (next_weights, inner_span)),
            )
            kernels.silu(0, rows, own, both, inner, inner_size, TILE * f0, TILE * f1)
            kernels.call_with(barrier, 0)
            if whole:
                kernels.rounded(first, last, kernels.COARSE, inner, whole, scales, inner_size)
                kernels.call_with(barrier, 0)
            next_weights = table[layer + 1][2] + q0 * hidden_span if step + 1 < end else 0
            _multiply(
                *(kind, o0, o1, rows, inner_depth, hidden_size, inner, rounded, down),
                *(masks, low, added, totals, (next_weights, hidden_span)),
            )
        step += 1
        kernels.call_with(barrier, 0)
    end_tiles(kind, totals)


@lru_cache(maxsize=None, typed=True)  # zeros of two types are equal
def _task(kind: Any) -> int:
    """The address of a function that computes one thread's share."""

    with kernels.compiling():

        @cfunc(types.void(types.voidptr), cache=True)
        def task(data):  # type: ignore[no-untyped-def]
            _share(kind, carray(data, (31,), np.int64))

    return int(task.address)


class Fused:
    """The layers of a model whose weights are tiles; `layers` are the norms' weights and products of each in order.

    The products are those of `gated.PRODUCTS`, and all of one kind.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Sequence[torch.Tensor], Sequence[Tiled]]],
        heads: int,
        shared: int,
        size: int,
        epsilon: float,
    ):
        self._layers = layers
        self._heads, self._shared, self._size = heads, shared, size
        self._rows_dtype = rows_dtype(layers[0][1][0].kind)
        written = (
            (kernels.ROUNDED,) * (size // 2) if self._rows_dtype == torch.float32 else head_kind(size, torch.bfloat16)
        )
        self._place, self._attend = task_of(place, head_kind(size, torch.bfloat16), 9), task_of(attend, written, 11)
        self._epsilon = np.array([epsilon], np.float32)
        self._table = np.zeros((len(layers), _LAYER), np.int64)
        self._added: list[torch.Tensor] = []
        self._widest = 0
        for numbers, (norms, products) in zip(self._table, layers, strict=True):
            numbers[:2] = [norm.data_ptr() for norm in norms]
            for number, tiled in enumerate(products):
                start, tensors = 2 + number * _PRODUCT, (tiled.tiles, tiled.scales_O, tiled.wide_bias_O)
                numbers[start : start + _OWN] = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]

    def adapted(self, adapter: Adapter, outputs: Sequence[Sequence[int]]) -> Self:
        """The same layers with an adapter; `outputs` are those of the linear layers of each product."""
        other = copy.copy(self)
        other._table, other._added, other._widest = self._table.copy(), [], 0
        for numbers, pairs in zip(other._table, adapter.layers, strict=False):
            for number, (names, sizes) in enumerate(zip(PRODUCTS, outputs, strict=True)):
                start = 2 + number * _PRODUCT
                numbers[start + _OWN : start + _PRODUCT] = other._add([pairs.get(name) for name in names], sizes)
        return other

    def _add(self, pairs: Sequence[LowRank | None], outputs: Sequence[int]) -> tuple[int, int, int, int, int]:
        """Keep A and B of linear layers that are one product; what stands in the table."""
        there = [pair for pair in pairs if pair is not None]
        if not there:
            return 0, 0, 0, _NOWHERE, _NOWHERE
        rank = -(-max(len(pair.a_SI) for pair in there) // TILE) * TILE
        features = there[0].a_SI.shape[1]
        a_parts, b_parts = [], []
        for pair, size in zip(pairs, outputs, strict=True):
            a_SI = there[0].a_SI.new_zeros(rank, features)
            b_OS = a_SI.new_zeros(size, rank)
            if pair is not None:
                a_SI[: len(pair.a_SI)] = pair.a_SI
                b_OS[:, : len(pair.a_SI)] = pair.b_OS * pair.scale
            a_parts.append(a_SI)
            # Behind the numbers of a tile stands what their rounding lost: both are multiplied with the same weights.
            b_parts.append(torch.cat([part_OS for one_OS in b_OS.split(TILE, 1) for part_OS in (one_OS, one_OS)], 1))
        a, b = pack(torch.cat(a_parts)), pack(torch.cat(b_parts))
        self._added += [a, b]
        self._widest = max(self._widest, len(a))
        borders = np.cumsum(outputs)[:-1] // TILE
        second, third = (int(borders[n]) if n < len(borders) else _NOWHERE for n in range(2))
        return a.data_ptr(), b.data_ptr(), rank // TILE, second, third

    def first(self, hidden_NE: torch.Tensor, masks_N: torch.Tensor | None, seen: Seen) -> torch.Tensor:
        """All up to the last keys and values; the last queries [N, H * D], while the hidden states change in place."""
        queries_NO = torch.empty(len(hidden_NE), self._heads * self._size)
        self._run(range(2 * len(self._layers) - 1), hidden_NE, queries_NO, masks_N, seen)
        return queries_NO

    def rest(
        self, hidden_NE: torch.Tensor, queries_NO: torch.Tensor, masks_N: torch.Tensor | None, seen: Seen
    ) -> torch.Tensor:
        """The sum that the last layer then adds to the hidden states [N, E], which change in place."""
        last = 2 * len(self._layers) - 1
        return self._run(range(last, last + 1), hidden_NE, queries_NO, masks_N, seen)

    def _run(
        self, steps: range, hidden_NE: torch.Tensor, queries_NO: torch.Tensor, masks_N: torch.Tensor | None, seen: Seen
    ) -> torch.Tensor:
        count, hidden_size = hidden_NE.shape
        if count == 0:  # tiles have at least one row
            return torch.empty(0, hidden_size, dtype=torch.bfloat16)
        width, attended_size = (self._heads + 2 * self._shared) * self._size, self._heads * self._size
        down = self._layers[0][1][3]
        inner_size = down.inputs
        threads, extent = torch.get_num_threads(), seen.mask_NK.shape[1]
        library: Openmp = openmp()  # type: ignore[assignment]  # see `tiles.kind_of_products`
        totals = scratch(threads)
        multiplied, products = (hidden_size, attended_size, inner_size), (width, hidden_size, 2 * inner_size)
        rows = torch.empty(count * sum(multiplied), dtype=self._rows_dtype).split([count * size for size in multiplied])
        room = torch.empty(count * sum(products), dtype=torch.bfloat16).split([count * size for size in products])
        normed, attended, inner = (part.data_ptr() for part in rows)
        found, added, both = (part.data_ptr() for part in room)
        whole = scales = torch.empty(0)
        if down.scales_O is not None:
            whole = torch.empty(count, max(hidden_size, attended_size, inner_size), dtype=torch.int8)
            scales = torch.empty(count)
        low = torch.empty(threads, count * self._widest * 2 * TILE, dtype=self._rows_dtype)
        stores = [store.data_ptr() for store in seen.stores]
        half = seen.stores[0].numel() // 2 * seen.stores[0].itemsize
        per_layer = np.empty((2, len(self._layers), 14), np.int64)
        placing, attending = per_layer
        given = (
            *(found, seen.rotations_N2D.data_ptr(), 0, 0, seen.places_N.data_ptr(), queries_NO.data_ptr()),
            *(self._heads, self._shared, seen.slots),
        )
        placing[:, :12] = library.number, library.count, count, *given
        placing[:, 5], placing[:, 6] = stores, stores
        placing[:, 6] += half
        attending[:] = (
            *(library.number, library.count, count * self._heads, queries_NO.data_ptr(), 0, 0, seen.mask_NK.data_ptr()),
            *(seen.starts_N.data_ptr(), attended, self._heads, self._shared, seen.slots, extent, count),
        )
        attending[:, 4], attending[:, 5] = stores, stores
        attending[:, 5] += half
        library.run(
            _task(down.kind),
            threads,
            *(library.barrier, steps.start, steps.stop, count, hidden_size, inner_size, width, attended_size),
            *(self._epsilon.ctypes.data, hidden_NE.data_ptr(), normed, found, attended, added, both, inner),
            *(0 if masks_N is None else masks_N.data_ptr(), low.data_ptr(), low.stride(0) * low.itemsize),
            *(self._table.ctypes.data, len(self._table)),
            *(self._place, placing.ctypes.data, self._attend, attending.ctypes.data, per_layer.strides[1]),
            *(whole.data_ptr(), scales.data_ptr(), totals.data_ptr()),
        )
        return room[1].view(count, hidden_size)
