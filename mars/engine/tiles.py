"""Products by AMX, the tile registers of newer Xeons, in bfloat16 or 8 bits: weights are read as one stream a block.

oneDNN reads weights that lie in no cache at some 20 GB/s on two cores, these kernels at 27 to 35: four blocks of
outputs are read side by side, each some way ahead of its products, up to those of the next matrix. Every sum is taken
in the order of its inputs, so a row gets the same bits whatever other rows share the call.

In 8 bits they are those of mars/engine/quantised.py, bit for bit.

Shapes: T rows, I and O input and output features, S summed ranks. A tile holds 16 rows or outputs times 32 inputs, or
64 of 8 bits. Functions compiled by numba take addresses of contiguous tensors, and `kind`, a number whose type is that
of the weights (mars/engine/kernels.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numba import carray, cfunc, njit, types

from mars.engine import kernels
from mars.engine.instructions import (
    add_product,
    clear_tile,
    compiles_for,
    configure_tiles,
    fetch,
    load_tile,
    round_sixteen,
    round_sixteen_with,
    save_tile,
    scale_sixteen,
    store_configuration,
    stream_tile,
)
from mars.engine.kernels import OPTIONS, at, load, store
from mars.engine.projection import Projection
from mars.engine.quantised import Steps, rounded
from mars.engine.workers import Openmp, openmp
from mars.provenance import instruction_limit

TILE = 16  # rows, and outputs
DEPTH = 32  # inputs in bfloat16, twice as many in 8 bits
BYTES = 1024  # of a tile
_LINE = 64
_NOTES = 128  # bytes: how the tiles were configured, and how they are
SCRATCH = 4 * BYTES + _NOTES  # of a thread: four tiles of sums, then its notes
_AHEAD = 4  # tiles that are asked for before they are needed
NO_SCALES = 0, 0  # of rows and outputs
NO_LOW_RANK = 0, 0, 1, 0, 0, 1  # the numbers of a `low_rank` (`product`) without weights
_FEATURES = "amx-tile", "amx-bf16", "amx-int8"  # LLVM's names; CPUs have all three


def available() -> bool:
    """Whether this CPU has such tiles, LLVM compiles for them, and the system lets this process use them.

    What is forbidden to oneDNN is forbidden here too, so that a lesser CPU can be measured.
    """
    allowed = "AMX" in (instruction_limit() or "AMX")
    return allowed and compiles_for(*_FEATURES) and _initialised() and openmp() is not None


def _initialised() -> bool:
    """Whether the system lets this process use the tiles; older versions of torch cannot ask."""
    supported, initialise = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_init_amx"))
    return bool(supported and initialise and supported() and initialise())


def fits(weight_OI: torch.Tensor, *, quantised: bool = False) -> bool:
    """Whether weights of bfloat16 fill whole tiles, as they are or as 8 bits."""
    outputs, inputs = weight_OI.shape
    depth = 2 * DEPTH if quantised else DEPTH
    return weight_OI.dtype == torch.bfloat16 and outputs % TILE == 0 and inputs % depth == 0


def pack(weight_OI: torch.Tensor) -> torch.Tensor:
    """The weights in the order in which they are read [O / 16, tiles, 16 groups of inputs, 16 outputs, inputs].

    A group has four bytes: two inputs of bfloat16, or four of 8 bits.
    """
    group = 4 // weight_OI.itemsize
    return weight_OI.reshape(len(weight_OI) // TILE, TILE, -1, TILE, group).permute(0, 2, 3, 1, 4).contiguous()


def unpack(tiles: torch.Tensor) -> torch.Tensor:
    """The weights [O, I] that `pack` packed."""
    return tiles.permute(0, 3, 1, 2, 4).reshape(len(tiles) * TILE, -1)


def scratch(threads: int) -> torch.Tensor:
    """The memory of so many threads [threads, SCRATCH], at a multiple of 64 bytes like all of torch's.

    What a thread of a parallel region allocates itself may fail, and then it misses the barriers of the others.
    """
    return torch.empty(threads, SCRATCH, dtype=torch.int8)


@njit(**OPTIONS)
def begin_tiles(rows, scratch):  # type: ignore[no-untyped-def]
    """Configure the tiles for passes of 1 or more rows; a thread's `scratch` keeps how another library had them."""
    notes = scratch + 4 * BYTES
    layout = at(notes + _LINE, (_LINE,), kernels.WHOLE)
    layout[:] = 0
    layout[0] = 1
    for tile in range(8):
        layout[16 + 2 * tile] = _LINE
        layout[48 + tile] = TILE if tile > 4 else min(rows, TILE)  # weights are in the last three, or two
    store_configuration(notes)
    configure_tiles(notes + _LINE)


@njit(**OPTIONS)
def end_tiles(scratch):  # type: ignore[no-untyped-def]
    """Give the tiles back as they were."""
    configure_tiles(scratch + 4 * BYTES)


@njit(**OPTIONS)
def _clear_sums():  # type: ignore[no-untyped-def]
    clear_tile(0)
    clear_tile(1)
    clear_tile(2)
    clear_tile(3)


@njit(**OPTIONS)
def _load_sums(totals):  # type: ignore[no-untyped-def]
    load_tile(0, totals, _LINE)
    load_tile(1, totals + BYTES, _LINE)
    load_tile(2, totals + 2 * BYTES, _LINE)
    load_tile(3, totals + 3 * BYTES, _LINE)


@njit(**OPTIONS)
def _save_sums(totals):  # type: ignore[no-untyped-def]
    save_tile(0, totals, _LINE)
    save_tile(1, totals + BYTES, _LINE)
    save_tile(2, totals + 2 * BYTES, _LINE)
    save_tile(3, totals + 3 * BYTES, _LINE)


@njit(**OPTIONS)
def _fetch_tile(address):  # type: ignore[no-untyped-def]
    for line in range(BYTES // _LINE):
        fetch(address + line * _LINE)


@njit(**OPTIONS)
def _part(block, second, third):  # type: ignore[no-untyped-def]
    return (1 if block >= second else 0) + (1 if block >= third else 0)


@njit(**OPTIONS)
def _scale(totals, places, rows, scales, adds):  # type: ignore[no-untyped-def]
    """Save sums of whole numbers as float32, times the scales of rows and outputs; with `adds`, more is added to them.

    `places` are the first row and the block of outputs of each tile.
    """
    if not scales[1]:
        return
    _save_sums(totals)
    for number in range(4):
        first, block = places[number]
        for t in range(rows):
            place = totals + number * BYTES + t * _LINE
            scale_sixteen(place, scales[1] + block * _LINE, scales[0] + (first + t) * 4)
    if adds:
        _load_sums(totals)


@njit(**OPTIONS)
def _write(totals, first, last, block, outputs, scales, bias, masks, found):  # type: ignore[no-untyped-def]
    """Put the sums of rows `first` to `last` where they are asked; those for a second product in two parts.

    These sums are 0 but for masks. Each is rounded to bfloat16, and so is what that rounding lost, which stands beside
    it: the two keep 16 of its 24 bits, or more.
    """
    totals_TO = at(totals, (TILE, TILE), kernels.WIDE)
    masks_T = at(masks, (last,), kernels.WHOLE)
    if masks:
        inner_TB2 = at(found, (last, outputs // TILE, 2, TILE), kernels.COARSE)
        for t in range(first, last):
            for o in range(TILE):
                total = totals_TO[t - first, o] if masks_T[t] else np.float32(0)
                coarse = store(total, kernels.COARSE)
                inner_TB2[t, block, 0, o] = coarse
                inner_TB2[t, block, 1, o] = store(total - load(coarse), kernels.COARSE)
        return
    for t in range(first, last):
        source, place = totals + (t - first) * _LINE, found + (t * outputs + block * TILE) * 2
        if bias:
            for o in range(TILE if scales[1] else 0):  # `Quantised` rounds before it adds the bias
                totals_TO[t - first, o] = load(store(totals_TO[t - first, o], kernels.COARSE))
            round_sixteen_with(source, bias + block * _LINE, place)
        else:
            round_sixteen(source, place)


@njit(**OPTIONS)
def _narrow(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """Up to 16 rows: one tile of them, and four blocks of outputs side by side."""
    stride, span = depth * _LINE, depth * BYTES
    low_weights, inner, ranks, second, third, parts = low_rank
    next_weights, next_span = ahead
    where = outputs, scales, bias, masks, found
    inner_stride = parts * ranks * _LINE
    for block in range(begin, end, 4):
        one, two, three = min(block + 1, end - 1), min(block + 2, end - 1), min(block + 3, end - 1)
        w0, w1, w2, w3 = weight + block * span, weight + one * span, weight + two * span, weight + three * span
        if block + 4 < end:
            n0, step = weight + (block + 4) * span, span
        else:
            n0, step = next_weights, next_span
        _clear_sums()
        for k in range(depth):
            if k + _AHEAD < depth:
                offset = (k + _AHEAD) * BYTES
                _fetch_tile(w0 + offset)
                _fetch_tile(w1 + offset)
                _fetch_tile(w2 + offset)
                _fetch_tile(w3 + offset)
            elif n0:
                offset = (k + _AHEAD - depth) * BYTES
                _fetch_tile(n0 + offset)
                _fetch_tile(n0 + step + offset)
                _fetch_tile(n0 + 2 * step + offset)
                _fetch_tile(n0 + 3 * step + offset)
            load_tile(4, x + k * _LINE, stride)
            stream_tile(5, w0 + k * BYTES, _LINE)
            add_product(kind, 0, 4, 5)
            stream_tile(6, w1 + k * BYTES, _LINE)
            add_product(kind, 1, 4, 6)
            stream_tile(7, w2 + k * BYTES, _LINE)
            add_product(kind, 2, 4, 7)
            stream_tile(5, w3 + k * BYTES, _LINE)
            add_product(kind, 3, 4, 5)
        _scale(totals, ((0, block), (0, one), (0, two), (0, three)), rows, scales, low_weights)
        if low_weights:
            for r in range(ranks):
                load_tile(4, inner + (_part(block, second, third) * ranks + r) * _LINE, inner_stride)
                load_tile(5, low_weights + (block * ranks + r) * BYTES, _LINE)
                add_product(kernels.COARSE, 0, 4, 5)
                load_tile(4, inner + (_part(one, second, third) * ranks + r) * _LINE, inner_stride)
                load_tile(6, low_weights + (one * ranks + r) * BYTES, _LINE)
                add_product(kernels.COARSE, 1, 4, 6)
                load_tile(4, inner + (_part(two, second, third) * ranks + r) * _LINE, inner_stride)
                load_tile(7, low_weights + (two * ranks + r) * BYTES, _LINE)
                add_product(kernels.COARSE, 2, 4, 7)
                load_tile(4, inner + (_part(three, second, third) * ranks + r) * _LINE, inner_stride)
                load_tile(5, low_weights + (three * ranks + r) * BYTES, _LINE)
                add_product(kernels.COARSE, 3, 4, 5)
        if low_weights or not scales[1]:
            _save_sums(totals)
        for number in range(min(4, end - block)):
            _write(totals + number * BYTES, 0, rows, block + number, *where)


@njit(**OPTIONS)
def _wide(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]  # noqa: C901
    """More than 16 rows: two tiles of them at a time, which may overlap, and two blocks of outputs."""
    stride, span = depth * _LINE, depth * BYTES
    low_weights, inner, ranks, second, third, parts = low_rank
    next_weights, next_span = ahead
    where = outputs, scales, bias, masks, found
    inner_stride = parts * ranks * _LINE
    for block in range(begin, end, 2):
        one = min(block + 1, end - 1)
        w0, w1 = weight + block * span, weight + one * span
        if block + 2 < end:
            n0, step = weight + (block + 2) * span, span
        else:
            n0, step = next_weights, next_span
        for start in range(0, rows, 2 * TILE):
            first = min(start, max(rows - 2 * TILE, 0))
            then = min(first + TILE, rows - TILE)
            _clear_sums()
            for k in range(depth):
                if start == 0:
                    if k + 2 * _AHEAD < depth:
                        _fetch_tile(w0 + (k + 2 * _AHEAD) * BYTES)
                        _fetch_tile(w1 + (k + 2 * _AHEAD) * BYTES)
                    elif n0:
                        _fetch_tile(n0 + (k + 2 * _AHEAD - depth) * BYTES)
                        _fetch_tile(n0 + step + (k + 2 * _AHEAD - depth) * BYTES)
                load_tile(4, x + first * stride + k * _LINE, stride)
                stream_tile(6, w0 + k * BYTES, _LINE)
                add_product(kind, 0, 4, 6)
                stream_tile(7, w1 + k * BYTES, _LINE)
                add_product(kind, 1, 4, 7)
                load_tile(5, x + then * stride + k * _LINE, stride)
                add_product(kind, 2, 5, 6)
                add_product(kind, 3, 5, 7)
            _scale(totals, ((first, block), (first, one), (then, block), (then, one)), TILE, scales, low_weights)
            if low_weights:
                for r in range(ranks):
                    load_tile(6, low_weights + (block * ranks + r) * BYTES, _LINE)
                    place = inner + (_part(block, second, third) * ranks + r) * _LINE
                    load_tile(4, place + first * inner_stride, inner_stride)
                    load_tile(5, place + then * inner_stride, inner_stride)
                    add_product(kernels.COARSE, 0, 4, 6)
                    add_product(kernels.COARSE, 2, 5, 6)
                    load_tile(7, low_weights + (one * ranks + r) * BYTES, _LINE)
                    place = inner + (_part(one, second, third) * ranks + r) * _LINE
                    load_tile(4, place + first * inner_stride, inner_stride)
                    load_tile(5, place + then * inner_stride, inner_stride)
                    add_product(kernels.COARSE, 1, 4, 7)
                    add_product(kernels.COARSE, 3, 5, 7)
            if low_weights or not scales[1]:
                _save_sums(totals)
            for number in range(min(2, end - block)):
                _write(totals + number * BYTES, first, first + TILE, block + number, *where)
                _write(totals + (2 + number) * BYTES, then, then + TILE, block + number, *where)


@njit(**OPTIONS)
def product(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """Products of rows [T, I] with the blocks `begin` to `end` of weights that `pack` packed in `depth` tiles.

    They are bfloat16 [T, O], with a float32 `bias` [O] unless it is 0; with `masks`, int8 [T], they are what a second,
    low-rank product reads (`_write`). That one is `low_rank`: its weights, for each block of outputs so many `ranks`
    tiles, whose inputs stand twice, or 0; its inputs [T, parts, ranks, 32]; `ranks`; the blocks with which the second
    and the third part begin; `parts`. It is of bfloat16. For whole numbers `scales` are those of rows [T] and outputs
    [O], else 0 and 0. `totals` has room for four tiles. `ahead` are the weights that will be read next, or 0, and how
    many bytes their blocks are apart.
    """
    given = begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead
    if rows <= TILE:
        _narrow(kind, *given)
    else:
        _wide(kind, *given)


@lru_cache(maxsize=None, typed=True)  # zeros of two types are equal
def _task(kind: Any) -> int:
    """The address of a function that computes one thread's share of a product."""

    @cfunc(types.void(types.voidptr), cache=True)
    def task(data):  # type: ignore[no-untyped-def]
        given = carray(data, (12,), np.int64)
        thread, threads, rows, outputs = kernels.call(given[0]), kernels.call(given[1]), given[2], given[4]
        blocks, totals = outputs // TILE, given[11] + SCRATCH * thread
        begin_tiles(rows, totals)
        product(
            *(kind, blocks * thread // threads, blocks * (thread + 1) // threads, rows, given[3], outputs),
            *(given[5], given[6], (given[7], given[8]), given[9], 0, given[10]),
            *(NO_LOW_RANK, totals, (0, 0)),
        )
        end_tiles(totals)

    return int(task.address)


class Tiled(Projection):
    """y = x Wᵀ + b like `linear.Linear`, always packed, and the same bits for any number of rows.

    For bfloat16 weights that `fits` says fill whole tiles. With `steps` it is `Quantised`, bit for bit.
    """

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None, steps: Steps | None = None):
        super().__init__(weight_OI)
        self.kind: Any = kernels.COARSE
        self.scales_O: torch.Tensor | None = None
        self._rounded = None if steps is None else steps[0]
        if steps is not None:
            self.kind = kernels.WHOLE
            weight_OI, self.scales_O = rounded(weight_OI)
        self.inputs = weight_OI.shape[1]
        self.tiles = pack(weight_OI)
        self.wide_bias_O = None if bias_O is None else bias_O.float()

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product [T, O]; ValueError unless the rows are bfloat16 and as wide as the weights."""
        if x_TI.dtype != torch.bfloat16 or x_TI.shape[1:] != (self.inputs,):  # addresses tell nothing of either
            wanted, found = f"bfloat16 rows of {self.inputs} numbers", f"{x_TI.dtype} of shape {list(x_TI.shape)}"
            raise ValueError(f"a product by tiles takes {wanted}, got {found}")
        rows, outputs = len(x_TI), len(self.tiles) * TILE
        found_TO = torch.empty(rows, outputs, dtype=torch.bfloat16)
        if rows == 0:
            return found_TO
        inputs_TI, scales_T = x_TI.contiguous(), None
        if self._rounded is not None:
            inputs_TI, scales_T = self._rounded(inputs_TI)
        tensors = inputs_TI, self.tiles, scales_T, self.scales_O, self.wide_bias_O, found_TO
        addresses = (0 if tensor is None else tensor.data_ptr() for tensor in tensors)
        library: Openmp = openmp()  # type: ignore[assignment]  # see `available`
        threads = torch.get_num_threads()
        room = scratch(threads)
        sizes = rows, self.tiles.shape[1], outputs
        library.run(_task(self.kind), threads, *sizes, *addresses, room.data_ptr())
        return found_TO

    def unpacked(self) -> torch.Tensor:
        weight_OI = unpack(self.tiles)
        return weight_OI if self.scales_O is None else (weight_OI * self.scales_O[:, None]).bfloat16()
