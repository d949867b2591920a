"""Products in bfloat16 by AMX, the tile registers of newer Xeons: weights are read in one stream a block of outputs.

oneDNN reads weights that lie in no cache at some 20 GB/s on two cores, these kernels at 27 to 35: four blocks of
outputs are read side by side, each some way ahead of its products, up to those of the next matrix. Every sum is taken
in the order of its inputs, so a row gets the same bits whatever other rows share the call.

Shapes: T rows, I and O input and output features, S summed ranks. A tile holds 16 rows or outputs times 32 inputs.
Functions compiled by numba take addresses of contiguous tensors.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from mars.engine import kernels
from mars.engine.kernels import at, store
from mars.engine.workers import Openmp, openmp

TILE = 16  # rows, and outputs
DEPTH = 32  # inputs
BYTES = 1024  # of a tile
_LINE = 64
_AHEAD = 4  # tiles that are asked for before they are needed
NO_LOW_RANK = 0, 0, 1, 0, 0, 1
_OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy"}

_BYTE, _WORD, _LONG, _NOTHING = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.VoidType()
_ADDRESS = _BYTE.as_pointer()


def available() -> bool:
    """Whether this CPU has such tiles for bfloat16, and the system lets this process use them.

    Who forbids them to oneDNN (ONEDNN_MAX_CPU_ISA), to measure what a lesser CPU does, forbids them here too.
    """
    allowed = any(name in os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper() for name in ("AMX", "ALL", "DEFAULT"))
    return allowed and bool(torch.cpu._is_amx_tile_supported() and torch.cpu._init_amx()) and openmp() is not None


def fits(weight_OI: torch.Tensor) -> bool:
    """Whether the weights fill whole tiles."""
    outputs, inputs = weight_OI.shape
    return weight_OI.dtype == torch.bfloat16 and outputs % TILE == 0 and inputs % DEPTH == 0


def pack(weight_OI: torch.Tensor) -> torch.Tensor:
    """The weights in the order in which they are read [O / 16, I / 32, 16 pairs of inputs, 16 outputs, 2]."""
    outputs, inputs = weight_OI.shape
    return weight_OI.reshape(outputs // TILE, TILE, inputs // DEPTH, DEPTH // 2, 2).permute(0, 2, 3, 1, 4).contiguous()


def unpack(tiles: torch.Tensor) -> torch.Tensor:
    """The weights [O, I] that `pack` packed."""
    blocks, depth = tiles.shape[:2]
    return tiles.permute(0, 3, 1, 2, 4).reshape(blocks * TILE, depth * DEPTH)


def _emit(builder: Any, name: str, arguments: list[Any]) -> None:
    """Call an instruction of the CPU by its name in LLVM."""
    function = builder.module.globals.get(name)
    if function is None:
        kinds = [argument.type for argument in arguments]
        function = ir.Function(builder.module, ir.FunctionType(_NOTHING, kinds), name)
    builder.call(function, arguments)


@intrinsic
def _fetch(context: Any, address: Any) -> Any:
    """Ask for a cache line."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        hints = [_WORD(0), _WORD(2), _WORD(1)]  # to read, into the second cache, data
        _emit(builder, "llvm.prefetch.p0", [builder.inttoptr(arguments[0], _ADDRESS), *hints])
        return context.get_dummy_value()

    return types.none(types.int64), generate


@intrinsic
def _configure(context: Any, address: Any) -> Any:
    """Say how many rows and bytes the tiles have."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _emit(builder, "llvm.x86.ldtilecfg", [builder.inttoptr(arguments[0], _ADDRESS)])
        return context.get_dummy_value()

    return types.none(types.int64), generate


@intrinsic
def _configured(context: Any, address: Any) -> Any:
    """Write down what was said last."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _emit(builder, "llvm.x86.sttilecfg", [builder.inttoptr(arguments[0], _ADDRESS)])
        return context.get_dummy_value()

    return types.none(types.int64), generate


@intrinsic(prefer_literal=True)
def _clear(context: Any, tile: Any) -> Any:
    number = tile.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _emit(builder, "llvm.x86.tilezero", [_BYTE(number)])
        return context.get_dummy_value()

    return types.none(tile), generate


@intrinsic(prefer_literal=True)
def _load(context: Any, tile: Any, address: Any, stride: Any) -> Any:
    number = tile.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[1], _ADDRESS)
        _emit(builder, "llvm.x86.tileloadd64", [_BYTE(number), where, arguments[2]])
        return context.get_dummy_value()

    return types.none(tile, types.int64, types.int64), generate


@intrinsic(prefer_literal=True)
def _stream(context: Any, tile: Any, address: Any, stride: Any) -> Any:
    """Load a tile of weights, which the nearest cache need not keep."""
    number = tile.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[1], _ADDRESS)
        _emit(builder, "llvm.x86.tileloaddt164", [_BYTE(number), where, arguments[2]])
        return context.get_dummy_value()

    return types.none(tile, types.int64, types.int64), generate


@intrinsic(prefer_literal=True)
def _save(context: Any, tile: Any, address: Any) -> Any:
    number = tile.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[1], _ADDRESS)
        _emit(builder, "llvm.x86.tilestored64", [_BYTE(number), where, _LONG(_LINE)])
        return context.get_dummy_value()

    return types.none(tile, types.int64), generate


@intrinsic(prefer_literal=True)
def _add_product(context: Any, total: Any, rows: Any, weights: Any) -> Any:
    numbers = [tile.literal_value for tile in (total, rows, weights)]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _emit(builder, "llvm.x86.tdpbf16ps", [_BYTE(number) for number in numbers])
        return context.get_dummy_value()

    return types.none(total, rows, weights), generate


def _rounded(builder: Any, total: Any, target: Any) -> None:
    """Store sixteen float32 numbers as bfloat16, rounded to the nearest as in `kernels.store`."""

    def all_of(number: int) -> Any:
        return ir.Constant(ir.VectorType(_WORD, TILE), [number] * TILE)

    bits = builder.bitcast(total, ir.VectorType(_WORD, TILE))
    odd = builder.and_(builder.lshr(bits, all_of(16)), all_of(1))
    up = builder.add(builder.add(bits, all_of(0x7FFF)), odd)
    coarse = builder.trunc(builder.lshr(up, all_of(16)), ir.VectorType(ir.IntType(16), TILE))
    builder.store(coarse, builder.inttoptr(target, coarse.type.as_pointer()), align=2)


def _sixteen(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, ir.VectorType(ir.FloatType(), TILE).as_pointer()), align=4)


@intrinsic
def _round(context: Any, source: Any, target: Any) -> Any:
    """Sixteen float32 numbers as bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _rounded(builder, _sixteen(builder, arguments[0]), arguments[1])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), generate


@intrinsic
def _round_with(context: Any, source: Any, bias: Any, target: Any) -> Any:
    """Sixteen sums of two float32 numbers as bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total = builder.fadd(_sixteen(builder, arguments[0]), _sixteen(builder, arguments[1]))
        _rounded(builder, total, arguments[2])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


@njit(**_OPTIONS)
def begin_tiles(rows, notes):  # type: ignore[no-untyped-def]
    """Lay the tiles out for passes of so many rows; `notes`, 128 bytes, keeps how another library had them."""
    layout = notes[64:]
    layout[:] = 0
    layout[0] = 1
    for tile in range(8):
        layout[16 + 2 * tile] = _LINE
        layout[48 + tile] = TILE if tile > 4 else min(rows, TILE)  # weights are in the last three, or two
    _configured(notes.ctypes.data)
    _configure(layout.ctypes.data)


@njit(**_OPTIONS)
def end_tiles(notes):  # type: ignore[no-untyped-def]
    """Give the tiles back as they were."""
    _configure(notes.ctypes.data)


@njit(**_OPTIONS)
def _fetch_tile(address):  # type: ignore[no-untyped-def]
    for line in range(BYTES // _LINE):
        _fetch(address + line * _LINE)


@njit(**_OPTIONS)
def _part(block, second, third):  # type: ignore[no-untyped-def]
    return (1 if block >= second else 0) + (1 if block >= third else 0)


@njit(**_OPTIONS)
def _write(totals, first, last, block, outputs, bias, masks, found):  # type: ignore[no-untyped-def]
    """Put the sums of rows `first` to `last` where they are asked; those for a second product in two parts.

    These sums are 0 but for masks. Rounded to bfloat16 with what the rounding lost beside it, they keep their bits.
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
                inner_TB2[t, block, 1, o] = store(total - kernels.load(coarse), kernels.COARSE)
        return
    for t in range(first, last):
        source, place = totals + (t - first) * _LINE, found + (t * outputs + block * TILE) * 2
        if bias:
            _round_with(source, bias + block * _LINE, place)
        else:
            _round(source, place)


@njit(**_OPTIONS)
def _narrow(begin, end, rows, depth, outputs, x, weight, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """Up to 16 rows: one tile of them, and four blocks of outputs side by side."""
    stride, span = depth * _LINE, depth * BYTES
    low, inner, ranks, second, third, parts = low_rank
    following, size = ahead
    own = parts * ranks * _LINE
    for block in range(begin, end, 4):
        one, two, three = min(block + 1, end - 1), min(block + 2, end - 1), min(block + 3, end - 1)
        w0, w1, w2, w3 = weight + block * span, weight + one * span, weight + two * span, weight + three * span
        if block + 4 < end:
            n0, step = weight + (block + 4) * span, span
        else:
            n0, step = following, size
        _clear(0)
        _clear(1)
        _clear(2)
        _clear(3)
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
            _load(4, x + k * _LINE, stride)
            _stream(5, w0 + k * BYTES, _LINE)
            _add_product(0, 4, 5)
            _stream(6, w1 + k * BYTES, _LINE)
            _add_product(1, 4, 6)
            _stream(7, w2 + k * BYTES, _LINE)
            _add_product(2, 4, 7)
            _stream(5, w3 + k * BYTES, _LINE)
            _add_product(3, 4, 5)
        if low:
            for r in range(ranks):
                _load(4, inner + (_part(block, second, third) * ranks + r) * _LINE, own)
                _load(5, low + (block * ranks + r) * BYTES, _LINE)
                _add_product(0, 4, 5)
                _load(4, inner + (_part(one, second, third) * ranks + r) * _LINE, own)
                _load(6, low + (one * ranks + r) * BYTES, _LINE)
                _add_product(1, 4, 6)
                _load(4, inner + (_part(two, second, third) * ranks + r) * _LINE, own)
                _load(7, low + (two * ranks + r) * BYTES, _LINE)
                _add_product(2, 4, 7)
                _load(4, inner + (_part(three, second, third) * ranks + r) * _LINE, own)
                _load(5, low + (three * ranks + r) * BYTES, _LINE)
                _add_product(3, 4, 5)
        _save(0, totals)
        _save(1, totals + BYTES)
        _save(2, totals + 2 * BYTES)
        _save(3, totals + 3 * BYTES)
        for number in range(min(4, end - block)):
            _write(totals + number * BYTES, 0, rows, block + number, outputs, bias, masks, found)


@njit(**_OPTIONS)
def _wide(begin, end, rows, depth, outputs, x, weight, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]  # noqa: C901
    """More than 16 rows: two tiles of them at a time, which may overlap, and two blocks of outputs."""
    stride, span = depth * _LINE, depth * BYTES
    low, inner, ranks, second, third, parts = low_rank
    following, size = ahead
    own = parts * ranks * _LINE
    for block in range(begin, end, 2):
        one = min(block + 1, end - 1)
        w0, w1 = weight + block * span, weight + one * span
        if block + 2 < end:
            n0, step = weight + (block + 2) * span, span
        else:
            n0, step = following, size
        for start in range(0, rows, 2 * TILE):
            first = min(start, max(rows - 2 * TILE, 0))
            then = min(first + TILE, rows - TILE)
            _clear(0)
            _clear(1)
            _clear(2)
            _clear(3)
            for k in range(depth):
                if start == 0:
                    if k + 2 * _AHEAD < depth:
                        _fetch_tile(w0 + (k + 2 * _AHEAD) * BYTES)
                        _fetch_tile(w1 + (k + 2 * _AHEAD) * BYTES)
                    elif n0:
                        _fetch_tile(n0 + (k + 2 * _AHEAD - depth) * BYTES)
                        _fetch_tile(n0 + step + (k + 2 * _AHEAD - depth) * BYTES)
                _load(4, x + first * stride + k * _LINE, stride)
                _stream(6, w0 + k * BYTES, _LINE)
                _add_product(0, 4, 6)
                _stream(7, w1 + k * BYTES, _LINE)
                _add_product(1, 4, 7)
                _load(5, x + then * stride + k * _LINE, stride)
                _add_product(2, 5, 6)
                _add_product(3, 5, 7)
            if low:
                for r in range(ranks):
                    _load(6, low + (block * ranks + r) * BYTES, _LINE)
                    place = inner + (_part(block, second, third) * ranks + r) * _LINE
                    _load(4, place + first * own, own)
                    _load(5, place + then * own, own)
                    _add_product(0, 4, 6)
                    _add_product(2, 5, 6)
                    _load(7, low + (one * ranks + r) * BYTES, _LINE)
                    place = inner + (_part(one, second, third) * ranks + r) * _LINE
                    _load(4, place + first * own, own)
                    _load(5, place + then * own, own)
                    _add_product(1, 4, 7)
                    _add_product(3, 5, 7)
            _save(0, totals)
            _save(1, totals + BYTES)
            _save(2, totals + 2 * BYTES)
            _save(3, totals + 3 * BYTES)
            for number in range(min(2, end - block)):
                _write(totals + number * BYTES, first, first + TILE, block + number, outputs, bias, masks, found)
                _write(totals + (2 + number) * BYTES, then, then + TILE, block + number, outputs, bias, masks, found)


@njit(**_OPTIONS)
def product(begin, end, rows, depth, outputs, x, weight, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """Products of rows [T, I] with the blocks `begin` to `end` of weights that `pack` packed, I = 32 `depth`.

    They are bfloat16 [T, O], with a float32 `bias` [O] unless it is 0; with `masks`, int8 [T], they are what a second,
    low-rank product reads (`_write`). That one is `low_rank`: its weights, for each block of outputs so many `ranks`
    tiles, whose inputs stand twice, or 0; its inputs [T, parts, ranks, 32]; `ranks`; the blocks with which the second
    and the third part begin; `parts`. `totals` has room for four tiles. `ahead` are the weights that will be read next,
    or 0, and how many bytes their blocks are apart.
    """
    if rows <= TILE:
        _narrow(begin, end, rows, depth, outputs, x, weight, bias, masks, found, low_rank, totals, ahead)
    else:
        _wide(begin, end, rows, depth, outputs, x, weight, bias, masks, found, low_rank, totals, ahead)


@cache
def _task() -> int:
    """The address of a function that computes one thread's share of a product."""

    @cfunc(types.void(types.voidptr), cache=True)
    def task(data):  # type: ignore[no-untyped-def]
        given = carray(data, (9,), np.int64)
        thread, threads, rows, outputs = kernels.call(given[0]), given[1], given[2], given[4]
        blocks, notes, totals = outputs // TILE, np.empty(128, np.uint8), np.empty(4 * BYTES, np.uint8)
        begin_tiles(rows, notes)
        product(
            blocks * thread // threads,
            blocks * (thread + 1) // threads,
            rows,
            given[3],
            outputs,
            given[5],
            given[6],
            given[7],
            0,
            given[8],
            NO_LOW_RANK,
            totals.ctypes.data,
            (0, 0),
        )
        end_tiles(notes)
        totals[0] = 0  # numba frees an array after its last use, and knows nothing of addresses

    return int(task.address)


class Tiled:
    """y = x Wᵀ + b like `linear.Linear`, always packed, and the same bits for any number of rows.

    For bfloat16 weights that `fits` says fill whole tiles.
    """

    packed = True

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None):
        self.tiles = pack(weight_OI)
        self.wide_bias_O = None if bias_O is None else bias_O.float()
        self.bias = bias_O
        self._plain: torch.Tensor | None = weight_OI

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product [T, O]."""
        rows, inputs = x_TI.shape
        outputs = len(self.tiles) * TILE
        found_TO = torch.empty(rows, outputs, dtype=torch.bfloat16)
        if rows == 0:
            return found_TO
        tensors = x_TI.contiguous(), self.tiles, self.wide_bias_O, found_TO
        addresses = (0 if tensor is None else tensor.data_ptr() for tensor in tensors)
        threads: Openmp = openmp()  # type: ignore[assignment]  # see `available`
        threads.run(_task(), torch.get_num_threads(), rows, inputs // DEPTH, outputs, *addresses)
        return found_TO

    def add_to(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        """Add the product to `sum_TO`, in place; the sum may be of a wider type."""
        sum_TO.add_(self(x_TI))

    def shed(self) -> None:
        """Keep the packed weights only."""
        self._plain = None

    def plain_weight(self) -> torch.Tensor:
        """The weights [O, I], unpacked, in new memory, if they were shed."""
        return unpack(self.tiles) if self._plain is None else self._plain
