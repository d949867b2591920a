"""Products by AMX, the tile registers of newer Xeons: weights are read as one stream a block.

oneDNN reads weights that lie in no cache at some 20 GB/s on two cores, these kernels at 27 to 35: four blocks of
outputs are read side by side, each some way ahead of its products, up to those of the next matrix. Every sum is taken
in the order of its inputs, so a row gets the same bits whatever other rows share the call. A register holds 16 rows, or
a tile of weights (layout.py, which defines the shapes).
"""

from __future__ import annotations

import torch
from numba import njit

from mars.provenance import instruction_limit
from mars_kernels.cpu.instructions import (
    add_product,
    clear_tile,
    compiles_for,
    configure_tiles,
    fetch,
    load_tile,
    save_tile,
    store_configuration,
    stream_tile,
)
from mars_kernels.cpu.jit import BYTE, OPTIONS, at
from mars_kernels.cpu.layout import BYTES, LINE, TILE, write

_AHEAD = 4  # tiles that are asked for before they are needed
_FEATURES = "amx-tile", "amx-bf16"  # LLVM's names


def available() -> bool:
    """Whether this CPU has such tiles, LLVM compiles for them, and the system lets this process use them.

    What is forbidden to oneDNN is forbidden here too, so that a lesser CPU can be measured.
    """
    allowed = "AMX" in (instruction_limit() or "AMX")
    return allowed and compiles_for(*_FEATURES) and _initialised()


def _initialised() -> bool:
    """Whether the system lets this process use the tiles; older versions of torch cannot ask."""
    supported, initialise = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_init_amx"))
    return bool(supported and initialise and supported() and initialise())


@njit(**OPTIONS)
def begin_tiles(rows, scratch):  # type: ignore[no-untyped-def]
    """Configure the tiles for passes of 1 or more rows; a thread's `scratch` keeps how another library had them."""
    notes = scratch + 4 * BYTES
    layout = at(notes + LINE, (LINE,), BYTE)
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
def _narrow(work, totals, ahead):  # type: ignore[no-untyped-def]
    """Up to 16 rows: one tile of them, and four blocks of outputs side by side."""
    begin, end, rows, depth, x, weight = work.begin, work.end, work.rows, work.depth, work.x, work.weight
    stride, span = depth * LINE, depth * BYTES
    for block in range(begin, end, 4):
        one, two, three = min(block + 1, end - 1), min(block + 2, end - 1), min(block + 3, end - 1)
        w0, w1, w2, w3 = weight + block * span, weight + one * span, weight + two * span, weight + three * span
        if block + 4 < end:
            n0, step = weight + (block + 4) * span, span
        else:
            n0, step = ahead.weights, ahead.span
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
            add_product(0, 4, 5)
            stream_tile(6, w1 + k * BYTES, LINE)
            add_product(1, 4, 6)
            stream_tile(7, w2 + k * BYTES, LINE)
            add_product(2, 4, 7)
            stream_tile(5, w3 + k * BYTES, LINE)
            add_product(3, 4, 5)
        _save_sums(totals)
        for number in range(min(4, end - block)):
            write(totals + number * BYTES, 0, rows, block + number, work)


@njit(**OPTIONS)
def _wide(work, totals, ahead):  # type: ignore[no-untyped-def]
    """More than 16 rows: two tiles of them at a time, which may overlap, and two blocks of outputs."""
    begin, end, rows, depth, x, weight = work.begin, work.end, work.rows, work.depth, work.x, work.weight
    stride, span = depth * LINE, depth * BYTES
    for block in range(begin, end, 2):
        one = min(block + 1, end - 1)
        w0, w1 = weight + block * span, weight + one * span
        if block + 2 < end:
            n0, step = weight + (block + 2) * span, span
        else:
            n0, step = ahead.weights, ahead.span
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
                add_product(0, 4, 6)
                stream_tile(7, w1 + k * BYTES, LINE)
                add_product(1, 4, 7)
                load_tile(5, x + then * stride + k * LINE, stride)
                add_product(2, 5, 6)
                add_product(3, 5, 7)
            _save_sums(totals)
            for number in range(min(2, end - block)):
                write(totals + number * BYTES, first, first + TILE, block + number, work)
                write(totals + (2 + number) * BYTES, then, then + TILE, block + number, work)


@njit(**OPTIONS)
def product(work, totals, ahead):  # type: ignore[no-untyped-def]
    """A `layout.Product`."""
    if work.rows <= TILE:
        _narrow(work, totals, ahead)
    else:
        _wide(work, totals, ahead)
