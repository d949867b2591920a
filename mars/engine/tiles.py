"""Products with weights in tiles (mars/engine/tile_layout.py), by kernels of our own: AMX, AVX512-BF16, or AVX2.

They are the bfloat16 products of invariant passes, and with AMX those in 8 bits. Functions compiled by numba choose the
kernels by the type of `kind`, when they are compiled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numba import carray, cfunc, types
from numba.extending import overload

from mars.engine import amx, avx, kernels
from mars.engine.projection import Projection
from mars.engine.tile_layout import SCRATCH, TILE, WIDE_SUMS, pack, scratch, unpack
from mars.engine.workers import Openmp, openmp

_WITHOUT_TILES = types.uint32, types.uint64  # the kinds of mars/engine/avx.py
NO_SCALES = 0, 0  # of rows and outputs
NO_LOW_RANK = 0, 0, 1, 0, 0, 1  # the numbers of a `low_rank` (`product`) without weights


def kind_of_products() -> Any:
    """The `kind` of the products of this CPU; None where it has no kernels for them.

    What is forbidden to oneDNN is forbidden here too, so that a lesser CPU can be measured.
    """
    if amx.available():
        return kernels.COARSE
    return avx.kind_available()


def rows_dtype(kind: Any) -> torch.dtype:
    """The type of `kernels.rows_of(kind)`."""
    return torch.float32 if isinstance(kind, type(kernels.WIDENED)) else torch.bfloat16


def begin_tiles(kind: Any, rows: int, scratch: int) -> None:
    """Prepare a thread for passes of 1 or more rows; its `scratch` keeps what `end_tiles` restores."""


def end_tiles(kind: Any, scratch: int) -> None:
    """Leave a thread as it was before `begin_tiles`."""


def coarse_kind(kind: Any) -> Any:
    """The `kind` of products in bfloat16 beside those of this one."""


def product(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """Products of rows [T, I] with the blocks `begin` to `end` of weights that `pack` packed in `depth` tiles.

    Rows are of `kernels.rows_of(kind)`, products bfloat16 [T, O], with a float32 `bias` [O] unless it is 0; float32
    without bias if `masks` are `WIDE_SUMS`;
    with `masks`, int8 [T], they are what a second, low-rank product reads (`tile_layout.write`). That one is
    `low_rank`: its weights, for each block of outputs so many `ranks` tiles, whose inputs stand twice, or 0; its inputs
    [T, parts, ranks, 32]; `ranks`; the blocks with which the second and the third part begin; `parts`. It is of
    bfloat16. For whole numbers `scales` are those of rows [T] and outputs [O], else 0 and 0. `totals` has room for four
    tiles. `ahead` are the weights that will be read next, or 0, and how many bytes their blocks are apart.
    """


@overload(begin_tiles, inline="always")
def _(kind, rows, scratch):  # type: ignore[no-untyped-def]
    if kind in _WITHOUT_TILES:
        return lambda kind, rows, scratch: None
    return lambda kind, rows, scratch: amx.begin_tiles(rows, scratch)


@overload(end_tiles, inline="always")
def _(kind, scratch):  # type: ignore[no-untyped-def]
    if kind in _WITHOUT_TILES:
        return lambda kind, scratch: None
    return lambda kind, scratch: amx.end_tiles(scratch)


@overload(coarse_kind, inline="always")
def _(kind):  # type: ignore[no-untyped-def]
    if kind in _WITHOUT_TILES:
        return lambda kind: kind
    return lambda kind: kernels.COARSE


@overload(product)
def _(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    own = avx.product if kind in _WITHOUT_TILES else amx.product

    def by_own(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
        own(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead)

    return by_own


@lru_cache(maxsize=None, typed=True)  # zeros of two types are equal
def _task(kind: Any) -> int:
    """The address of a function that computes one thread's share of a product."""

    with kernels.compiling():

        @cfunc(types.void(types.voidptr), cache=True)
        def task(data):  # type: ignore[no-untyped-def]
            given = carray(data, (13,), np.int64)
            thread, threads, rows, outputs = kernels.call(given[0]), kernels.call(given[1]), given[2], given[4]
            blocks, totals = outputs // TILE, given[11] + SCRATCH * thread
            begin_tiles(kind, rows, totals)
            product(
                *(kind, blocks * thread // threads, blocks * (thread + 1) // threads, rows, given[3], outputs),
                *(given[5], given[6], (given[7], given[8]), given[9], given[12], given[10]),
                *(NO_LOW_RANK, totals, (0, 0)),
            )
            end_tiles(kind, totals)

    return int(task.address)


class Tiled(Projection):
    """y = x Wᵀ + b like `linear.Linear`, always packed, and the same bits for any number of rows.

    For CPUs that `kind_of_products` knows, and bfloat16 weights that fill whole tiles (`tile_layout.fits`).
    """

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None):
        super().__init__(weight_OI)
        self.kind = kind_of_products()
        self.scales_O: torch.Tensor | None = None
        self.inputs = weight_OI.shape[1]
        self.tiles = pack(weight_OI)
        self.bias = bias_O
        self.wide_bias_O = None if bias_O is None else bias_O.float()

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product [T, O]; ValueError unless the rows are bfloat16 and as wide as the weights."""
        return self._product(x_TI, torch.bfloat16)

    def sums(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The sums [T, O] in float32, without the bias: those that the product rounds. ValueError as for that."""
        return self._product(x_TI, torch.float32)

    def _product(self, x_TI: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if x_TI.dtype != torch.bfloat16 or x_TI.shape[1:] != (self.inputs,):  # addresses tell nothing of either
            wanted, found = f"bfloat16 rows of {self.inputs} numbers", f"{x_TI.dtype} of shape {list(x_TI.shape)}"
            raise ValueError(f"a product by tiles takes {wanted}, got {found}")
        rows, outputs = len(x_TI), len(self.tiles) * TILE
        found_TO = torch.empty(rows, outputs, dtype=dtype)
        if rows == 0:
            return found_TO
        inputs_TI, scales_T = x_TI.contiguous().to(rows_dtype(self.kind)), None
        tensors = inputs_TI, self.tiles, scales_T, self.scales_O, self.wide_bias_O, found_TO
        addresses = (0 if tensor is None else tensor.data_ptr() for tensor in tensors)
        library: Openmp = openmp()  # type: ignore[assignment]  # see `kind_of_products`
        threads = torch.get_num_threads()
        room, masks = scratch(threads), WIDE_SUMS if dtype == torch.float32 else 0
        sizes = rows, self.tiles.shape[1], outputs
        library.run(_task(self.kind), threads, *sizes, *addresses, room.data_ptr(), masks)
        return found_TO

    def unpacked(self) -> torch.Tensor:
        return unpack(self.tiles)
