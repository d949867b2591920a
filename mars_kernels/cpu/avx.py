"""Products by AVX512-BF16 (Zen 4 and later, Cooper Lake, Xeons whose AMX is forbidden), or by AVX2 without it.

oneDNN reads weights that lie in no cache at some 20 GB/s on two Zen 4 cores, these kernels at 30: several blocks of
outputs are read side by side, each some way ahead of its products, up to those of the next matrix. A pair of inputs is
multiplied with those of sixteen outputs at once; AVX2 has no products of bfloat16, and makes them float32 for it, in
registers. Every sum is taken in the order of its inputs, so a row gets the same bits whatever other rows share the
call. layout.py defines the shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from mars.provenance import instruction_limit
from mars_kernels.cpu.instructions import MOST_ROWS, Pairs, add_pairs, compiles_for
from mars_kernels.cpu.jit import OPTIONS, PAIRS, WIDE, WIDENED, at, rows_of
from mars_kernels.cpu.layout import BYTES, DEPTH, LINE, write

_PAIRS = DEPTH // 2  # of a tile
_AHEAD = 4 * _PAIRS  # pairs of inputs that are asked for before they are needed
_CAPABLE = "BF16", "FP16", "AMX", "AVX10"  # in what oneDNN calls CPUs that have instructions for bfloat16
_INCAPABLE = "SSE41", "AVX"  # and those without AVX2


def kind_available() -> Any:
    """The kind of products that this CPU has instructions for, LLVM compiles and oneDNN is not forbidden; or None."""
    limit = instruction_limit() or "AMX"
    if any(name in limit for name in _CAPABLE) and compiles_for("avx512f", "avx512bf16"):
        return PAIRS
    return WIDENED if limit not in _INCAPABLE and compiles_for("avx2", "fma") else None


def _shape(kind, rows):  # type: ignore[no-untyped-def]
    """How many blocks are read side by side for so many rows, and the most rows at once."""


@overload(_shape)
def _(kind, rows):  # type: ignore[no-untyped-def]
    four, two, one = (MOST_ROWS[kind][blocks] for blocks in (4, 2, 1))

    def shape(kind, rows):  # type: ignore[no-untyped-def]
        if rows <= four:
            return 4, four
        return (2, two) if rows <= two or two == one else (1, one)

    return shape


@njit(**OPTIONS)
def _add(kind, blocks, pairs):  # type: ignore[no-untyped-def]
    """Add pairs of inputs to the sums of so many blocks."""
    if blocks == 4:
        add_pairs(kind, 4, pairs)
    elif blocks == 2:
        add_pairs(kind, 2, pairs)
    else:
        add_pairs(kind, 1, pairs)


@njit(**OPTIONS)
def product(kind, work, totals, ahead):  # type: ignore[no-untyped-def]
    """A `layout.Product`."""
    bytes_each = at(work.x, (1,), rows_of(kind)).itemsize
    rows, begin, end = work.rows, work.begin, work.end
    stride, span, pairs = work.depth * DEPTH * bytes_each, work.depth * BYTES, work.depth * _PAIRS
    wide, most = _shape(kind, rows)
    pieces = -(-rows // most)
    most = -(-rows // pieces)  # as many rows in each piece
    early = max(pairs - _AHEAD, 0)
    block = begin
    while block < end:
        several = wide
        while several > end - block:
            several //= 2
        weights = work.weight + block * span
        following, step = weights + several * span, span
        if block + several >= end:
            following, step = (ahead.weights, ahead.span) if ahead.weights else (weights, span)
        for first in range(0, rows, most):
            count = min(most, rows - first)
            at(totals, (several * BYTES // 4,), WIDE)[:] = np.float32(0)
            own = work.x + first * stride
            late = own + 2 * early * bytes_each
            if pieces == 1 or (block == begin and first == 0):
                soon, behind = weights + _AHEAD * LINE, weights + early * LINE
                _add(kind, several, Pairs(count, early, own, stride, weights, span, totals, soon, span, LINE))
                left = pairs - early
                _add(kind, several, Pairs(count, left, late, stride, behind, span, totals, following, step, LINE))
            else:
                # Each piece asks for its part of the next blocks: so memory is read as long as there is arithmetic.
                sharing = pieces - 1 if block == begin else pieces
                number = first // most - (pieces - sharing)
                soon, lines = following + number * pairs * LINE // sharing, -(-LINE // sharing)
                _add(kind, several, Pairs(count, pairs, own, stride, weights, span, totals, soon, step, lines))
            for number in range(several):
                write(totals + number * BYTES, first, first + count, block + number, work)
        block += several
