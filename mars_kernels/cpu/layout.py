"""Weights in the order in which our own kernels read them, and what these share (amx.py and avx.py).

Shapes: T rows, I and O input and output features. A tile has 16 outputs times 32 inputs of bfloat16.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from numba import njit

from mars_kernels.cpu.instructions import round_sixteen, round_sixteen_with
from mars_kernels.cpu.jit import OPTIONS, WIDE, at

TILE = 16  # outputs, and rows that a register of AMX holds
DEPTH = 32  # inputs
BYTES = 1024  # of a tile
LINE = 64
_NOTES = 128  # bytes: how AMX was configured, and how it is
SCRATCH = 4 * BYTES + _NOTES  # of a thread: sums of 64 rows and 16 outputs, or fewer and more, then its notes


class Product(NamedTuple):
    """Rows [T, I] times the blocks `begin` to `end` of weights in `depth` tiles; all others are addresses.

    Rows are of `jit.rows_of(kind)`, products bfloat16 [T, O], with a float32 `bias` [O] unless it is 0; float32 without
    bias if they are asked for `wide`.
    """

    begin: int
    end: int
    rows: int
    depth: int
    outputs: int
    x: int
    weight: int
    bias: int
    wide: int
    found: int


class Ahead(NamedTuple):
    """The weights that will be read next, or 0, and how many bytes their blocks are apart."""

    weights: int
    span: int


NOTHING_AHEAD = Ahead(0, 0)


def fits(weight_OI: torch.Tensor) -> bool:
    """Whether weights of bfloat16 fill whole tiles."""
    outputs, inputs = weight_OI.shape
    return weight_OI.dtype == torch.bfloat16 and outputs % TILE == 0 and inputs % DEPTH == 0


def pack(weight_OI: torch.Tensor) -> torch.Tensor:
    """The weights in the order in which they are read [O / 16, tiles, 16 pairs of inputs, 16 outputs, 2 inputs]."""
    return weight_OI.reshape(len(weight_OI) // TILE, TILE, -1, TILE, 2).permute(0, 2, 3, 1, 4).contiguous()


def unpack(tiles: torch.Tensor) -> torch.Tensor:
    """The weights [O, I] that `pack` packed."""
    return tiles.permute(0, 3, 1, 2, 4).reshape(len(tiles) * TILE, -1)


def scratch() -> torch.Tensor:
    """The memory of all threads [threads, SCRATCH], at a multiple of 64 bytes like all of torch's.

    What a thread of a parallel region allocates itself may fail, and then it misses the barriers of the others.
    """
    return torch.empty(torch.get_num_threads(), SCRATCH, dtype=torch.int8)


@njit(**OPTIONS)
def share(blocks, thread, threads):  # type: ignore[no-untyped-def]
    """One thread's share."""
    return blocks * thread // threads, blocks * (thread + 1) // threads


@njit(**OPTIONS)
def write(totals, first, last, block, work):  # type: ignore[no-untyped-def]
    """Put the sums of rows `first` to `last` where they are asked."""
    if work.wide:
        totals_TO = at(totals, (last - first, TILE), WIDE)
        wide_TO = at(work.found, (last, work.outputs), WIDE)
        for t in range(first, last):
            for o in range(TILE):
                wide_TO[t, block * TILE + o] = totals_TO[t - first, o]
        return
    for t in range(first, last):
        source, place = totals + (t - first) * LINE, work.found + (t * work.outputs + block * TILE) * 2
        if work.bias:
            round_sixteen_with(source, work.bias + block * LINE, place)
        else:
            round_sixteen(source, place)
