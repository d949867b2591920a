"""Weights in the order in which our own kernels read them, and what these share (amx.py and avx.py).

Shapes: T rows, I and O input and output features, S summed ranks. A tile has 16 outputs times 32 inputs of bfloat16.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numba import njit

from mars_kernels.cpu.instructions import round_sixteen, round_sixteen_with
from mars_kernels.cpu.jit import BYTE, OPTIONS, WIDE, at, load, store

TILE = 16  # outputs, and rows that a register of AMX holds
DEPTH = 32  # inputs
BYTES = 1024  # of a tile
LINE = 64
_NOTES = 128  # bytes: how AMX was configured, and how it is
WIDE_SUMS = -1  # in place of masks: the sums are wanted in float32
SCRATCH = 4 * BYTES + _NOTES  # of a thread: sums of 64 rows and 16 outputs, or fewer and more, then its notes


class Product(NamedTuple):
    """Rows [T, I] times the blocks `begin` to `end` of weights in `depth` tiles; all others are addresses.

    Rows are of `jit.rows_of(kind)`, products bfloat16 [T, O], with a float32 `bias` [O] unless it is 0; float32 without
    bias if `masks` are `WIDE_SUMS`; with `masks`, int8 [T], they are what a `LowRankProduct` product reads (`write`).
    """

    begin: int
    end: int
    rows: int
    depth: int
    outputs: int
    x: int
    weight: int
    bias: int
    masks: int
    found: int


class LowRankProduct(NamedTuple):
    """A second product, added to the sums of the first: its `weights`, for each block of outputs so many `ranks` tiles.

    Their inputs stand twice. `inner` [T, parts, ranks, 32] is what it reads; `second` and `third` are the blocks with
    which these parts begin. No `weights`, no product.
    """

    weights: int
    inner: int
    ranks: int
    second: int
    third: int
    parts: int


class Ahead(NamedTuple):
    """The weights that will be read next, or 0, and how many bytes their blocks are apart."""

    weights: int
    span: int


NOTHING_LOW = LowRankProduct(0, 0, 1, 0, 0, 1)
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
def part(low, block):  # type: ignore[no-untyped-def]
    """Which part of a `LowRankProduct` product a block of outputs belongs to."""
    return (1 if block >= low.second else 0) + (1 if block >= low.third else 0)


@njit(**OPTIONS)
def write(kind, totals, first, last, block, work):  # type: ignore[no-untyped-def]
    """Put the sums of rows `first` to `last` where they are asked; those for a second product, of `kind`, in two parts.

    These sums are 0 but for masks. Each is rounded to bfloat16, and so is what that rounding lost, which stands beside
    it: the two keep 16 of its 24 bits, or more.
    """
    totals_TO = at(totals, (last - first, TILE), WIDE)
    if work.masks == WIDE_SUMS:
        wide_TO = at(work.found, (last, work.outputs), WIDE)
        for t in range(first, last):
            for o in range(TILE):
                wide_TO[t, block * TILE + o] = totals_TO[t - first, o]
        return
    masks_T = at(work.masks, (last,), BYTE)
    if work.masks:
        inner_TB2 = at(work.found, (last, work.outputs // TILE, 2, TILE), kind)
        for t in range(first, last):
            for o in range(TILE):
                total = totals_TO[t - first, o] if masks_T[t] else np.float32(0)
                coarse = store(total, kind)
                inner_TB2[t, block, 0, o] = coarse
                inner_TB2[t, block, 1, o] = store(total - load(coarse), kind)
        return
    for t in range(first, last):
        source, place = totals + (t - first) * LINE, work.found + (t * work.outputs + block * TILE) * 2
        if work.bias:
            round_sixteen_with(source, work.bias + block * LINE, place)
        else:
            round_sixteen(source, place)
