"""The steps of a layer between two products with weights: norm, silu, keys and values into the cache, and attention.

Every column is computed by itself and in one order, so it gets the same bits whatever shares its pass. Hidden states,
keys, values and scores are float32; what is multiplied with weights is bfloat16.

Steps read the record of their pass, `p`. The `kind` of heads is a tuple of such numbers, half as many as a head has:
loops of a known length are faster. Shapes: N columns, E hidden size, F inner size, H heads on G key-value heads of D
numbers, S slots, K slots 1 to extent - 1, U heads of columns that are computed together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

from mars.engine.attention import KEY_STEP
from mars_kernels.cpu.jit import COARSE, MOST, OPTIONS, PLACE, WIDE, at, call, exp, load, pointer, store
from mars_kernels.cpu.layout import share
from mars_kernels.cpu.openmp import THREADS
from mars_kernels.cpu.vectors import (
    add_values,
    lanes_of,
    largest_sum,
    multiply_add,
    scores_of_keys,
    sum_of,
    sum_of_squares,
)

_BLOCK = KEY_STEP  # keys that stay in the first cache while several heads read them
_TOGETHER = 24  # heads of columns
_PARTS = 4  # of the columns, for each thread, unless they are few
_FEW = 8

# Of a pass: sizes, addresses of what is computed on the way, of what it reads, and of the functions of its heads.
SIZES = "rows", "hidden_size", "attended_size", "inner_size", "width", "heads", "shared", "slots", "extent", "half"
ROOM = "hidden", "normed", "found", "attended", "added", "both", "inner", "queries", "totals"
READ = "rotations", "stores", "places", "starts", "mask"
MODEL = "layers", "norms", "products", "last_norm", "place", "attend", "self"
NUMBERS = (*SIZES, *ROOM, *READ, *MODEL, "step", "end")
PASS = np.dtype([*THREADS, *((name, "i8") for name in NUMBERS), ("epsilon", "f4")], align=True)


@njit(**OPTIONS)
def pass_at(address):  # type: ignore[no-untyped-def]
    """The record of a pass."""
    return carray(pointer(address), (1,), PASS)[0]


def head_kind(size: int, kind: Any) -> tuple[Any, ...]:
    """The `kind` of heads of so many numbers, where rows are of this one."""
    return (kind,) * (size // 2)


@njit(**OPTIONS)
def norm(p, begin, end, weight, adds, normed, kind):  # type: ignore[no-untyped-def]
    """Norm the hidden states: x / sqrt(|x|² / E + ε) · w; if it `adds`, after adding what a product gave, in place."""
    size = p.hidden_size
    hidden_NE, weight_E = at(p.hidden, (end, size), WIDE), at(weight, (size,), WIDE)
    added_NE, normed_NE = at(p.added, (end, size), COARSE), at(normed, (end, size), kind)
    for n in range(begin, end):
        if adds:
            for e in range(size):
                hidden_NE[n, e] += load(added_NE[n, e])
        squares = sum_of_squares(p.hidden + n * size * 4, size)
        factor = np.float32(1) / np.sqrt(squares / np.float32(size) + p.epsilon)
        for e in range(size):
            normed_NE[n, e] = store(hidden_NE[n, e] * factor * weight_E[e], kind)


@njit(**OPTIONS)
def silu(p, first, last, kind):  # type: ignore[no-untyped-def]
    """silu(gate) · up from number `first` to `last`, of columns that hold first all gates, then all ups."""
    count, size = last - first, p.inner_size
    written = at(p.inner, (1,), kind).itemsize
    for n in range(p.rows):
        # Views that begin with 0: numba allows for negative numbers, of which LLVM cannot make vectors.
        start = p.both + (2 * n * size + first) * 2
        gate_F, up_F = at(start, (count,), COARSE), at(start + size * 2, (count,), COARSE)
        inner_F = at(p.inner + (n * size + first) * written, (count,), kind)
        for f in range(count):
            gate = load(gate_F[f])
            decay = exp(min(max(-gate, -MOST), MOST))
            inner_F[f] = store(gate / (np.float32(1) + decay) * load(up_F[f]), kind)


@njit(**OPTIONS)
def _weigh(weights_K, mask_K, last):  # type: ignore[no-untyped-def]
    """Make weights of the scores that add up to 1, 0 for keys that are not seen."""
    most = largest_sum(weights_K.ctypes.data, mask_K.ctypes.data, last)  # LLVM makes no vectors of a running maximum
    for k in range(last):
        weight = exp(max(weights_K[k] + mask_K[k] - most, -MOST))
        weight = weight if mask_K[k] == 0 else np.float32(0)
        weights_K[k] = weight
    total = sum_of(weights_K.ctypes.data, last)
    factor = np.float32(1) / total if total else np.float32(0)  # padding sees nothing
    for k in range(last):
        weights_K[k] *= factor


@njit(**OPTIONS)
def _end(mask_K):  # type: ignore[no-untyped-def]
    """Behind the last key that is seen, at a multiple of KEY_STEP."""
    last = len(mask_K)
    while last and mask_K[last - 1] != 0:
        last -= 1
    return (last + KEY_STEP - 1) // KEY_STEP * KEY_STEP


@njit(**OPTIONS)
def _together(first, end, count, readers, starts_N, mask_NK, units_U3):  # type: ignore[no-untyped-def]
    """How many heads of columns from number `first` on read the same keys; fills `units_U3`: column, head, last key.

    They are computed together, block by block of the keys, which are in a near cache then.
    """
    group, units = first // (count * readers), 0
    start = starts_N[first // readers % count]
    while units < _TOGETHER and first + units < end:
        unit = first + units
        n = unit // readers % count
        if unit // (count * readers) != group or starts_N[n] != start:
            break
        known = units > 0 and units_U3[units - 1, 0] == n
        last = units_U3[units - 1, 2] if known else _end(mask_NK[n])
        units_U3[units, 0], units_U3[units, 1], units_U3[units, 2] = n, group * readers + unit % readers, last
        units += 1
    return units


@njit(**OPTIONS)
def _rotate(found_D, turn_2D, factor, turned_D, kind):  # type: ignore[no-untyped-def]
    half = len(kind)
    for d in range(half):
        x, y = load(found_D[d]), load(found_D[d + half])
        turned_D[d] = multiply_add(x, turn_2D[0, d], y * turn_2D[1, d]) * factor
        turned_D[d + half] = multiply_add(y, turn_2D[0, d + half], x * turn_2D[1, d + half]) * factor


@njit(**OPTIONS)
def _parts(p, count):  # type: ignore[no-untyped-def]
    """Which parts of so many a thread computes, and how many there are: some of all, as later columns see more keys."""
    thread, threads = call(p.number), call(p.count)
    return thread, threads, threads * max(1, min(_PARTS, count // (_FEW * threads)))


@njit(**OPTIONS)
def place(p, layer, kind):  # type: ignore[no-untyped-def]
    """Rotate queries and keys; put keys and values into the cache and the queries, scaled, where they are asked."""
    size, heads, shared, slots = 2 * len(kind), p.heads, p.shared, p.slots
    keys = at(p.stores, (layer + 1,), PLACE)[layer]
    found_NHD = at(p.found, (p.rows, heads + 2 * shared, size), COARSE)
    turn_N2D, places_N = at(p.rotations, (p.rows, 2, size), WIDE), at(p.places, (p.rows,), PLACE)
    queries_NHD = at(p.queries, (p.rows, heads, size), WIDE)
    scale = np.float32(1 / np.sqrt(size))
    thread, threads, parts = _parts(p, p.rows)
    for number in range(thread, parts, threads):
        begin, end = share(p.rows, number, parts)
        for n in range(begin, end):
            own = keys + places_N[n] * size * 4
            keys_GSD = at(own, (shared, slots, size), WIDE)
            values_GSD = at(own + p.half, (shared, slots, size), WIDE)
            for h in range(heads):
                _rotate(found_NHD[n, h], turn_N2D[n], scale, queries_NHD[n, h], kind)
            for g in range(shared):
                _rotate(found_NHD[n, heads + g], turn_N2D[n], np.float32(1), keys_GSD[g, 0], kind)
                for d in range(size):
                    values_GSD[g, 0, d] = load(found_NHD[n, heads + shared + g, d])


@njit(**OPTIONS)
def _score_units(units_U3, queries, keys, weights, heads, extent, kind):  # type: ignore[no-untyped-def]
    """The scores [U, K] of these heads of columns: `weights` is where they go."""
    size, lanes = 2 * len(kind), lanes_of(kind)
    step, wide = size * 4, extent * 4
    for k in range(0, units_U3[:, 2].max(), _BLOCK):
        u = 0
        while u < len(units_U3):
            both = u + 1 < len(units_U3) and units_U3[u + 1, 2] == units_U3[u, 2]
            query = queries + (units_U3[u, 0] * heads + units_U3[u, 1]) * step
            place = weights + u * wide
            if both:
                other = queries + (units_U3[u + 1, 0] * heads + units_U3[u + 1, 1]) * step
                for near in range(k, min(units_U3[u, 2], k + _BLOCK), lanes):
                    found = place + near * 4, place + wide + near * 4
                    scores_of_keys((query, other), keys + near * step, found, kind)
            else:
                for near in range(k, min(units_U3[u, 2], k + _BLOCK), lanes):
                    scores_of_keys((query,), keys + near * step, (place + near * 4,), kind)
            u += 2 if both else 1


@njit(**OPTIONS)
def _add_up_units(units_U3, weights, values, sums, extent, kind):  # type: ignore[no-untyped-def]
    """Add the weighted values to the sums [U, D] of these heads of columns."""
    size, lanes = 2 * len(kind), lanes_of(kind)
    step, wide = size * 4, extent * 4
    for k in range(0, units_U3[:, 2].max(), _BLOCK):
        u = 0
        while u < len(units_U3):
            both = u + 1 < len(units_U3) and units_U3[u + 1, 2] == units_U3[u, 2]
            weight, total = weights + u * wide, sums + u * step
            for near in range(k, min(units_U3[u, 2], k + _BLOCK), lanes):
                if both:
                    two = weight + near * 4, weight + wide + near * 4
                    add_values(two, values + near * step, (total, total + step), kind)
                else:
                    add_values((weight + near * 4,), values + near * step, (total,), kind)
            u += 2 if both else 1


@njit(**OPTIONS)
def attend(p, layer, kind):  # type: ignore[no-untyped-def]
    """softmax(q kᵀ) v over the keys that a column sees.

    Heads of columns are numbered: first those of all columns that read the first key-value head.
    """
    thread, threads, parts = _parts(p, p.rows * p.heads)
    for number in range(thread, parts, threads):
        begin, end = share(p.rows * p.heads, number, parts)
        _attend(p, layer, kind, begin, end)


@njit(**OPTIONS)
def _attend(p, layer, kind, begin, end):  # type: ignore[no-untyped-def]
    size, count, heads, extent = 2 * len(kind), p.rows, p.heads, p.extent
    keys, readers = at(p.stores, (layer + 1,), PLACE)[layer], heads // p.shared
    mask_NK, starts_N = at(p.mask, (count, extent), WIDE), at(p.starts, (count,), PLACE)
    found_NHD = at(p.attended, (count, heads, size), kind[0])
    weights_UK, sums_UD = np.empty((_TOGETHER, extent), np.float32), np.empty((_TOGETHER, size), np.float32)
    units_U3 = np.empty((_TOGETHER, 3), np.int64)
    weights, sums = weights_UK.ctypes.data, sums_UD.ctypes.data
    first = begin
    while first < end:
        units = _together(first, end, count, readers, starts_N, mask_NK, units_U3)
        group = first // (count * readers)
        own = keys + (starts_N[units_U3[0, 0]] + group * p.slots + 1) * size * 4  # slot 0 is padding's
        _score_units(units_U3[:units], p.queries, own, weights, heads, extent, kind)
        for u in range(units):
            _weigh(weights_UK[u], mask_NK[units_U3[u, 0]], units_U3[u, 2])
        sums_UD[:units] = np.float32(0)
        _add_up_units(units_U3[:units], weights, own + p.half, sums, extent, kind)
        for u in range(units):
            for d in range(size):
                found_NHD[units_U3[u, 0], units_U3[u, 1], d] = store(sums_UD[u, d], kind[0])
        first += units
    weights_UK[0, 0] = sums_UD[0, 0] = 0  # numba frees an array after its last use, and knows nothing of addresses
