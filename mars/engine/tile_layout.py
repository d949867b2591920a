"""Weights in the order in which our own kernels read them, and what these share (mars/engine/amx.py and avx.py).

Shapes: T rows, I and O input and output features, S summed ranks. A tile has 16 outputs times 32 inputs, or 64 of 8
bits. Functions compiled by numba take addresses of contiguous tensors, and `kind`, a number whose type is that of the
weights (mars/engine/kernels.py).
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from mars.engine import kernels
from mars.engine.instructions import round_sixteen, round_sixteen_with
from mars.engine.kernels import OPTIONS, at, load, store

TILE = 16  # outputs, and rows that a register of AMX holds
DEPTH = 32  # inputs in bfloat16, twice as many in 8 bits
BYTES = 1024  # of a tile
LINE = 64
_NOTES = 128  # bytes: how AMX was configured, and how it is
WIDE_SUMS = -1  # in place of masks: the sums are wanted in float32
SCRATCH = 4 * BYTES + _NOTES  # of a thread: sums of 64 rows and 16 outputs, or fewer and more, then its notes


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
def part(block, second, third):  # type: ignore[no-untyped-def]
    """Which part of a low-rank product a block of outputs belongs to (`tiles.product`)."""
    return (1 if block >= second else 0) + (1 if block >= third else 0)


@njit(**OPTIONS)
def write(kind, totals, first, last, block, outputs, scales, bias, masks, found):  # type: ignore[no-untyped-def]
    """Put the sums of rows `first` to `last` where they are asked; those for a second product, of `kind`, in two parts.

    These sums are 0 but for masks. Each is rounded to bfloat16, and so is what that rounding lost, which stands beside
    it: the two keep 16 of its 24 bits, or more.
    """
    totals_TO = at(totals, (last - first, TILE), kernels.WIDE)
    if masks == WIDE_SUMS:
        wide_TO = at(found, (last, outputs), kernels.WIDE)
        for t in range(first, last):
            for o in range(TILE):
                wide_TO[t, block * TILE + o] = totals_TO[t - first, o]
        return
    masks_T = at(masks, (last,), kernels.WHOLE)
    if masks:
        inner_TB2 = at(found, (last, outputs // TILE, 2, TILE), kind)
        for t in range(first, last):
            for o in range(TILE):
                total = totals_TO[t - first, o] if masks_T[t] else np.float32(0)
                coarse = store(total, kind)
                inner_TB2[t, block, 0, o] = coarse
                inner_TB2[t, block, 1, o] = store(total - load(coarse), kind)
        return
    for t in range(first, last):
        source, place = totals + (t - first) * LINE, found + (t * outputs + block * TILE) * 2
        if bias:
            for o in range(TILE if scales[1] else 0):  # `Quantised` rounds before it adds the bias
                totals_TO[t - first, o] = load(store(totals_TO[t - first, o], kernels.COARSE))
            round_sixteen_with(source, bias + block * LINE, place)
        else:
            round_sixteen(source, place)
