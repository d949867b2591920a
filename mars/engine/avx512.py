"""Products by AVX512-BF16, for CPUs without AMX: Zen 4 and later, Cooper Lake, and Xeons whose AMX is forbidden.

oneDNN reads weights that lie in no cache at some 20 GB/s on two Zen 4 cores, these kernels at 30: several blocks of
outputs are read side by side, each some way ahead of its products, up to those of the next matrix. A pair of inputs is
multiplied with those of sixteen outputs at once. Every sum is taken in the order of its inputs, so a row gets the same
bits whatever other rows share the call. mars/engine/tile_layout.py defines the shapes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mars.engine import kernels
from mars.engine.instructions import add_pairs, compiles_for
from mars.engine.kernels import OPTIONS, at
from mars.engine.tile_layout import BYTES, DEPTH, LINE, part, write
from mars.engine.workers import openmp
from mars.provenance import instruction_limit

_PAIRS = DEPTH // 2  # of a tile
_AHEAD = 4 * _PAIRS  # pairs of inputs that are asked for before they are needed
_FEW = 6  # rows whose sums of four blocks fill the registers, which are 32
_MOST = 14  # the same of two blocks
_CAPABLE = "BF16", "FP16", "AMX", "AVX10"  # in what oneDNN calls CPUs that have these instructions


def available() -> bool:
    """Whether this CPU has these instructions, LLVM compiles for them, and they are not forbidden to oneDNN."""
    allowed = any(name in (instruction_limit() or "AMX") for name in _CAPABLE)
    return allowed and compiles_for("avx512f", "avx512bf16") and openmp() is not None


@njit(**OPTIONS)
def _add(blocks, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step):  # type: ignore[no-untyped-def]
    if blocks == 4:
        add_pairs(4, _FEW, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step)
    elif blocks == 2:
        add_pairs(2, _MOST, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step)
    else:
        add_pairs(1, _MOST, rows, pairs, x, stride, weight, span, totals, ahead, ahead_span, ahead_step)


@njit(**OPTIONS)
def product(kind, begin, end, rows, depth, outputs, x, weight, scales, bias, masks, found, low_rank, totals, ahead):  # type: ignore[no-untyped-def]
    """The product of `tiles.product`, in bfloat16: `scales` are 0 and 0."""
    stride, span, pairs = depth * LINE, depth * BYTES, depth * _PAIRS
    low_weights, inner, ranks, second, third, parts = low_rank
    next_weights, next_span = ahead
    inner_stride = parts * ranks * LINE
    wide, most = (4, _FEW) if rows <= _FEW else (2, _MOST)
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
            own, late = x + first * stride, x + first * stride + 4 * early
            if pieces == 1 or (block == begin and first == 0):
                soon, behind = weights + _AHEAD * LINE, weights + early * LINE
                _add(several, count, early, own, stride, weights, span, totals, soon, span, LINE)
                _add(several, count, pairs - early, late, stride, behind, span, totals, following, step, LINE)
            else:
                # Each piece asks for its part of the next blocks: so memory is read as long as there is arithmetic.
                sharing = pieces - 1 if block == begin else pieces
                number = first // most - (pieces - sharing)
                soon = following + number * pairs * LINE // sharing
                _add(several, count, pairs, own, stride, weights, span, totals, soon, step, -(-LINE // sharing))
            for number in range(several):
                sums = totals + number * BYTES
                if low_weights:
                    place = inner + first * inner_stride + part(block + number, second, third) * ranks * LINE
                    low = low_weights + (block + number) * ranks * BYTES
                    _add(1, count, ranks * _PAIRS, place, inner_stride, low, 0, sums, low, 0, LINE)
                write(sums, first, first + count, block + number, outputs, scales, bias, masks, found)
        block += several
