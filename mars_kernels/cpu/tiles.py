"""Products with weights in tiles (layout.py), by kernels of our own: AMX, AVX512-BF16, or AVX2.

Functions compiled by numba choose the kernels by the type of `kind`, when they are compiled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numba import carray, types
from numba.extending import overload
from transformers import PreTrainedConfig

from mars.engine.linear import Projection
from mars_kernels.cpu import amx, avx
from mars_kernels.cpu.jit import COARSE, WIDENED, call, compiled, pointer
from mars_kernels.cpu.layout import (
    DEPTH,
    NOTHING_AHEAD,
    SCRATCH,
    TILE,
    Product,
    pack,
    scratch,
    share,
    unpack,
)
from mars_kernels.cpu.openmp import THREADS, openmp

_WITHOUT_TILES = types.uint32, types.uint64  # the kinds of avx.py
_NUMBERS = "rows", "depth", "outputs", "x", "weight", "bias", "wide", "found", "totals"
_CALL = np.dtype([*THREADS, *((name, "i8") for name in _NUMBERS)])


def kind_of_products() -> Any:
    """The `kind` of the products of this CPU; None where it has no kernels for them.

    What is forbidden to oneDNN is forbidden here too, so that a lesser CPU can be measured.
    """
    if openmp() is None:
        return None
    return COARSE if amx.available() else avx.kind_available()


def fits(config: PreTrainedConfig) -> bool:
    """Whether passes of a Qwen2 or Llama in bfloat16 can run on these kernels: its matrices fill tiles of 16 x 32."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inputs = config.hidden_size, config.intermediate_size, size * config.num_attention_heads
    ragged = any(number % DEPTH for number in inputs) or size * config.num_key_value_heads % TILE
    return not ragged and kind_of_products() is not None


def rows_dtype(kind: Any) -> torch.dtype:
    """The type of `jit.rows_of(kind)`."""
    return torch.float32 if isinstance(kind, type(WIDENED)) else torch.bfloat16


def begin_tiles(kind: Any, rows: int, scratch: int) -> None:
    """Prepare a thread for passes of 1 or more rows; its `scratch` keeps what `end_tiles` restores."""


def end_tiles(kind: Any, scratch: int) -> None:
    """Leave a thread as it was before `begin_tiles`."""


def product(kind, work, totals, ahead):  # type: ignore[no-untyped-def]
    """A `Product`; `totals` has room for four tiles, `ahead` is what is read next."""


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


@overload(product)
def _(kind, work, totals, ahead):  # type: ignore[no-untyped-def]
    if kind in _WITHOUT_TILES:
        return lambda kind, work, totals, ahead: avx.product(kind, work, totals, ahead)
    return lambda kind, work, totals, ahead: amx.product(work, totals, ahead)


@lru_cache(maxsize=None, typed=True)  # zeros of two types are equal
def _task(kind: Any) -> int:
    """The address of a function that computes one thread's share of a product."""

    def task(address):  # type: ignore[no-untyped-def]
        given = carray(pointer(address), (1,), _CALL)[0]
        thread, threads = call(given.number), call(given.count)
        begin, end = share(given.outputs // TILE, thread, threads)
        totals = given.totals + SCRATCH * thread
        work = Product(
            begin,
            end,
            given.rows,
            given.depth,
            given.outputs,
            given.x,
            given.weight,
            given.bias,
            given.wide,
            given.found,
        )
        begin_tiles(kind, given.rows, totals)
        product(kind, work, totals, NOTHING_AHEAD)
        end_tiles(kind, totals)

    return int(compiled(types.void(types.int64), task).address)


class Tiled(Projection):
    """y = x Wᵀ + b for bfloat16 weights that fill whole tiles (`layout.fits`), the same bits for any number of rows.

    It is packed, and for CPUs that `kind_of_products` knows.
    """

    packed = True

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None):
        super().__init__(weight_OI)
        self.kind = kind_of_products()
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
        inputs_TI, room = x_TI.contiguous().to(rows_dtype(self.kind)), scratch()
        bias = 0 if self.wide_bias_O is None else self.wide_bias_O.data_ptr()
        record = np.zeros(1, _CALL)
        record[list(_NUMBERS)] = (
            *(rows, self.tiles.shape[1], outputs, inputs_TI.data_ptr(), self.tiles.data_ptr(), bias),
            *(dtype == torch.float32, found_TO.data_ptr(), room.data_ptr()),
        )
        openmp().run(_task(self.kind), record)  # type: ignore[union-attr]  # see `kind_of_products`
        return found_TO

    def unpacked(self) -> torch.Tensor:
        return unpack(self.tiles)
