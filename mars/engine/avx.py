"""Products by AVX512-BF16 (Zen 4 and later, Cooper Lake, Xeons whose AMX is forbidden), or by AVX2 without it.

oneDNN reads weights that lie in no cache at some 20 GB/s on two Zen 4 cores, these kernels at 30: several blocks of
outputs are read side by side, each some way ahead of its products, up to those of the next matrix. A pair of inputs is
multiplied with those of sixteen outputs at once; AVX2 has no products of bfloat16, and makes them float32 for it, in
registers. Every sum is taken in the order of its inputs, so a row gets the same bits whatever other rows share the
call. mars/engine/tile_layout.py defines the shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from mars.engine import kernels
from mars.engine.instructions import add_pairs, compiles_for
from mars.engine.kernels import OPTIONS, at
from mars.engine.tile_layout import BYTES, DEPTH, LINE, part, write
from mars.engine.workers import openmp
from mars.provenance import instruction_limit

_PAIRS = DEPTH // 2  # of a tile
_AHEAD = 4 * _PAIRS  # pairs of inputs that are asked for before they are needed
# Rows whose sums of four, two and one blocks fill the registers: 32 of 16 floats, or 16 of 8.
_BY_PAIRS = 6, 14, 14
_WIDENED = 1, 2, 6
_CAPABLE = "BF16", "FP16", "AMX", "AVX10"  # in what oneDNN calls CPUs that have instructions for bfloat16
_INCAPABLE = "SSE41", "AVX"  # and those without AVX2


def kind_available() -> Any:
    """The kind of products that this CPU has instructions for, LLVM compiles and oneDNN is not forbidden; or None."""
    limit = instruction_limit() or "AMX"
    if openmp() is None:
        return None
    if any(name in limit for name in _CAPABLE) and compiles_for("avx512f", "avx512bf16"):
        return kernels.PAIRS
    return kernels.WIDENED if limit not in _INCAPABLE and compiles_for("avx2", "fma") else None


def _add(kind, blocks, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step):  # type: ignore[no-untyped-def]
    """Add so many pairs of inputs to the sums of these blocks."""


def _shape(kind, rows):  # type: ignore[no-untyped-def]
    """How many blocks are read side by side for so many rows, and the most rows at once."""


@overload(_add)
def _(kind, blocks, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step):  # type: ignore[no-untyped-def]
    four, two, one = _BY_PAIRS if kind == types.uint32 else _WIDENED

    def add(kind, blocks, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step):  # type: ignore[no-untyped-def]
        if blocks == 4:
            add_pairs(kind, 4, four, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step)
        elif blocks == 2:
            add_pairs(kind, 2, two, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step)
        else:
            add_pairs(kind, 1, one, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step)

    return add


@overload(_shape)
def _(kind, rows):  # type: ignore[no-untyped-def]
    four, two, one = _BY_PAIRS if kind == types.uint32 else _WIDENED

    def shape(kind, rows):  # type: ignore[no-untyped-def]
        if rows <= four:
            return 4, four
        return (2, two) if rows <= two or two == one else (1, one)

    return shape


@njit(**OPTIONS)
def product(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """The product of `tiles.product`, in bfloat16: `scales` are 0 and 0."""
    own_kind = kernels.rows_of(kind)
    bytes_each = at(x, (1,), own_kind).itemsize
    stride, span, pairs = depth * DEPTH * bytes_each, depth * BYTES, depth * _PAIRS
    low_weights, inner, ranks, second, third, parts = low_rank
    next_weights, next_span = ahead
    rank_size = ranks * DEPTH * bytes_each
    inner_stride = parts * rank_size
    wide, most = _shape(kind, rows)
    pieces = -(-rows // most)
    most = -(-rows // pieces)  # as many rows in each piece
    early = max(pairs - _AHEAD, 0)
    block = begin
    while block < end:
        several = wide
        while several > end - block:
            several //= 2
        weights = weight + block * span
        following, step = weights + several * span, span
        if block + several >= end:
            following, step = (next_weights, next_span) if next_weights else (weights, span)
        for first in range(0, rows, most):
            count = min(most, rows - first)
            at(totals, (several * BYTES // 4,), kernels.WIDE)[:] = np.float32(0)
            own = x + first * stride
            late = own + 2 * early * bytes_each
            if pieces == 1 or (block == begin and first == 0):
                soon, behind = weights + _AHEAD * LINE, weights + early * LINE
                _add(kind, several, count, early, own, stride, weights, span, totals, soon, span, LINE)
                _add(kind, several, count, pairs - early, late, stride, behind, span, totals, following, step, LINE)
            else:
                # Each piece asks for its part of the next blocks: so memory is read as long as there is arithmetic.
                sharing = pieces - 1 if block == begin else pieces
                number = first // most - (pieces - sharing)
                soon = following + number * pairs * LINE // sharing
                _add(kind, several, count, pairs, own, stride, weights, span, totals, soon, step, -(-LINE // sharing))
            for number in range(several):
                sums = totals + number * BYTES
                if low_weights:
                    place = inner + first * inner_stride + part(block + number, second, third) * rank_size
                    low = low_weights + (block + number) * ranks * BYTES
                    _add(kind, 1, count, ranks * _PAIRS, place, inner_stride, low, 0, sums, low, 0, LINE)
                write(own_kind, sums, first, first + count, block + number, outputs, scales, bias, masks, found)
        block += several
