"""Products by AMX, the tile registers of newer Xeons, in bfloat16 or 8 bits: weights are read as one stream a block.

oneDNN reads weights that lie in no cache at some 20 GB/s on two cores, these kernels at 27 to 35: four blocks of
outputs are read side by side, each some way ahead of its products, up to those of the next matrix. Every sum is taken
in the order of its inputs, so a row gets the same bits whatever other rows share the call.

In 8 bits they are those of mars/engine/quantised.py, bit for bit. A register holds 16 rows, or a tile of weights
(mars/engine/tile_layout.py, which defines the shapes).
"""

from __future__ import annotations

import torch
from numba import njit

from mars.engine import kernels
from mars.engine.instructions import (
    add_product,
    clear_tile,
    compiles_for,
    configure_tiles,
    fetch,
    load_tile,
    save_tile,
    scale_sixteen,
    store_configuration,
    stream_tile,
)
from mars.engine.kernels import OPTIONS, at
from mars.engine.tile_layout import BYTES, LINE, TILE, part, write
from mars.engine.workers import openmp
from mars.provenance import instruction_limit

_AHEAD = 4  # tiles that are asked for before they are needed
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


@njit(**OPTIONS)
def begin_tiles(rows, scratch):  # type: ignore[no-untyped-def]
    """Configure the tiles for passes of 1 or more rows; a thread's `scratch` keeps how another library had them."""
    notes = scratch + 4 * BYTES
    layout = at(notes + LINE, (LINE,), kernels.WHOLE)
    layout[:] = 0
    layout[0] = 1
    for tile in range(8):
        layout[16 + 2 * tile] = LINE
        layout[48 + tile] = TILE if tile > 4 else min(rows, TILE)  # weights are in the last three, or two
    store_configuration(notes)
    configure_tiles(notes + LINE)


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
    load_tile(0, totals, LINE)
    load_tile(1, totals + BYTES, LINE)
    load_tile(2, totals + 2 * BYTES, LINE)
    load_tile(3, totals + 3 * BYTES, LINE)


@njit(**OPTIONS)
def _save_sums(totals):  # type: ignore[no-untyped-def]
    save_tile(0, totals, LINE)
    save_tile(1, totals + BYTES, LINE)
    save_tile(2, totals + 2 * BYTES, LINE)
    save_tile(3, totals + 3 * BYTES, LINE)


@njit(**OPTIONS)
def _fetch_tile(address):  # type: ignore[no-untyped-def]
    for line in range(BYTES // LINE):
        fetch(address + line * LINE)


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
            place = totals + number * BYTES + t * LINE
            scale_sixteen(place, scales[1] + block * LINE, scales[0] + (first + t) * 4)
    if adds:
        _load_sums(totals)


@njit(**OPTIONS)
def _narrow(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """Up to 16 rows: one tile of them, and four blocks of outputs side by side."""
    stride, span = depth * LINE, depth * BYTES
    low_weights, inner, ranks, second, third, parts = low_rank
    next_weights, next_span = ahead
    where = outputs, scales, bias, masks, found
    inner_stride = parts * ranks * LINE
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
            load_tile(4, x + k * LINE, stride)
            stream_tile(5, w0 + k * BYTES, LINE)
            add_product(kind, 0, 4, 5)
            stream_tile(6, w1 + k * BYTES, LINE)
            add_product(kind, 1, 4, 6)
            stream_tile(7, w2 + k * BYTES, LINE)
            add_product(kind, 2, 4, 7)
            stream_tile(5, w3 + k * BYTES, LINE)
            add_product(kind, 3, 4, 5)
        _scale(totals, ((0, block), (0, one), (0, two), (0, three)), rows, scales, low_weights)
        if low_weights:
            for r in range(ranks):
                load_tile(4, inner + (part(block, second, third) * ranks + r) * LINE, inner_stride)
                load_tile(5, low_weights + (block * ranks + r) * BYTES, LINE)
                add_product(kernels.COARSE, 0, 4, 5)
                load_tile(4, inner + (part(one, second, third) * ranks + r) * LINE, inner_stride)
                load_tile(6, low_weights + (one * ranks + r) * BYTES, LINE)
                add_product(kernels.COARSE, 1, 4, 6)
                load_tile(4, inner + (part(two, second, third) * ranks + r) * LINE, inner_stride)
                load_tile(7, low_weights + (two * ranks + r) * BYTES, LINE)
                add_product(kernels.COARSE, 2, 4, 7)
                load_tile(4, inner + (part(three, second, third) * ranks + r) * LINE, inner_stride)
                load_tile(5, low_weights + (three * ranks + r) * BYTES, LINE)
                add_product(kernels.COARSE, 3, 4, 5)
        if low_weights or not scales[1]:
            _save_sums(totals)
        for number in range(min(4, end - block)):
            write(kernels.COARSE, totals + number * BYTES, 0, rows, block + number, *where)


@njit(**OPTIONS)
def _wide(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]  # noqa: C901
    """More than 16 rows: two tiles of them at a time, which may overlap, and two blocks of outputs."""
    stride, span = depth * LINE, depth * BYTES
    low_weights, inner, ranks, second, third, parts = low_rank
    next_weights, next_span = ahead
    where = outputs, scales, bias, masks, found
    inner_stride = parts * ranks * LINE
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
                load_tile(4, x + first * stride + k * LINE, stride)
                stream_tile(6, w0 + k * BYTES, LINE)
                add_product(kind, 0, 4, 6)
                stream_tile(7, w1 + k * BYTES, LINE)
                add_product(kind, 1, 4, 7)
                load_tile(5, x + then * stride + k * LINE, stride)
                add_product(kind, 2, 5, 6)
                add_product(kind, 3, 5, 7)
            _scale(totals, ((first, block), (first, one), (then, block), (then, one)), TILE, scales, low_weights)
            if low_weights:
                for r in range(ranks):
                    load_tile(6, low_weights + (block * ranks + r) * BYTES, LINE)
                    place = inner + (part(block, second, third) * ranks + r) * LINE
                    load_tile(4, place + first * inner_stride, inner_stride)
                    load_tile(5, place + then * inner_stride, inner_stride)
                    add_product(kernels.COARSE, 0, 4, 6)
                    add_product(kernels.COARSE, 2, 5, 6)
                    load_tile(7, low_weights + (one * ranks + r) * BYTES, LINE)
                    place = inner + (part(one, second, third) * ranks + r) * LINE
                    load_tile(4, place + first * inner_stride, inner_stride)
                    load_tile(5, place + then * inner_stride, inner_stride)
                    add_product(kernels.COARSE, 1, 4, 7)
                    add_product(kernels.COARSE, 3, 5, 7)
            if low_weights or not scales[1]:
                _save_sums(totals)
            for number in range(min(2, end - block)):
                write(kernels.COARSE, totals + number * BYTES, first, first + TILE, block + number, *where)
                write(kernels.COARSE, totals + (2 + number) * BYTES, then, then + TILE, block + number, *where)


@njit(**OPTIONS)
def product(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """The product of `tiles.product`, `kind` being that of the weights."""
    given = begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead
    if rows <= TILE:
        _narrow(kind, *given)
    else:
        _wide(kind, *given)
