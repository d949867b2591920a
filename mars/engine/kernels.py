"""Functions that numba compiles for passes on a CPU: the steps between two products with weights, column by column.

Every column is computed by itself and in one order, so it gets the same bits whatever shares its pass. Hidden states,
keys, values and scores are float32; what is multiplied with weights has their type, bfloat16 or float32.

Shapes: N columns that a pass computes, M of them (masks, or those that predict), E hidden size, H heads on G key-value
heads of D numbers, S slots, K slots 1 to extent - 1, F inner size, I and O input and output features, T summed ranks.
All compute the columns `begin` to `end`. They take addresses of contiguous tensors, and `kind`, a number whose type is
that of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic, overload

from mars.engine.attention import KEY_STEP

_WIDE, _COARSE, _PLACE, _WHOLE = np.float32(0), np.uint16(0), np.int64(0), np.int8(0)
KINDS = {torch.float32: _WIDE, torch.bfloat16: _COARSE}
# Sums may be vectorised, in the one way that the compiler chose; infinities and NaN stay what they are.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_OPTIONS = {"fastmath": _FAST, "nogil": True, "cache": True, "error_model": "numpy"}
# A function that holds another compiled one is kept on no disk: numba would take it for a new one in each process.
_HOLDING = {**_OPTIONS, "cache": False}
_MOST = np.float32(87)  # exponents
_LEAST = np.float32(np.finfo(np.float32).tiny)
# Sums over keys end at multiples, so that a longer extent adds zeros and nothing else.
_STEP = KEY_STEP
AT_ONCE = 4  # rows that a loop reads: twice as fast as one by one


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic
def _bits(context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def _float(context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


def _at(address: Any, shape: Any, kind: Any) -> Any:
    """The array at an address; bfloat16 is read as uint16."""


def _load(x: Any) -> Any:
    """The float32 of a stored number."""


def _store(x: Any, kind: Any) -> Any:
    """A float32 as it is stored, rounded to the nearest."""


@overload(_at, inline="always")
def _(address, shape, kind):  # type: ignore[no-untyped-def]
    if kind == types.uint16:
        return lambda address, shape, kind: carray(_pointer(address), shape, np.uint16)
    if kind == types.int8:
        return lambda address, shape, kind: carray(_pointer(address), shape, np.int8)
    if kind == types.int64:
        return lambda address, shape, kind: carray(_pointer(address), shape, np.int64)
    return lambda address, shape, kind: carray(_pointer(address), shape, np.float32)


@overload(_load, inline="always")
def _(x):  # type: ignore[no-untyped-def]
    if x == types.uint16:
        return lambda x: _float(np.int32(x) << np.int32(16))
    return lambda x: x


@overload(_store, inline="always")
def _(x, kind):  # type: ignore[no-untyped-def]
    if kind != types.uint16:
        return lambda x, kind: x

    def rounded(x, kind):  # type: ignore[no-untyped-def]
        bits = _bits(x)
        return np.uint16((bits + np.int32(0x7FFF) + ((bits >> np.int32(16)) & np.int32(1))) >> np.int32(16))

    return rounded


@njit(inline="always")
def _exp(x):  # type: ignore[no-untyped-def]
    """e^x for x from -87 to 88, to a few units in the last place: Cephes' polynomial, which vectorises."""
    twos = np.floor(x * np.float32(1.44269504088896341) + np.float32(0.5))
    x = x - twos * np.float32(0.693359375) + twos * np.float32(2.12194440e-4)
    y = np.float32(1.9875691500e-4)
    y = y * x + np.float32(1.3981999507e-3)
    y = y * x + np.float32(8.3334519073e-3)
    y = y * x + np.float32(4.1665795894e-2)
    y = y * x + np.float32(1.6666665459e-1)
    y = y * x + np.float32(5.0000001201e-1)
    y = y * x * x + x + np.float32(1)
    return y * _float((np.int32(twos) + np.int32(127)) << np.int32(23))


@njit(**_OPTIONS)
def norm(begin, end, kind, hidden, added, weight, normed, size, epsilon):  # type: ignore[no-untyped-def]
    """Add `added` to the hidden states, unless it is 0, and norm them: x / sqrt(|x|² / E + ε) · w."""
    hidden_NE, weight_E = _at(hidden, (end, size), _WIDE), _at(weight, (size,), _WIDE)
    normed_NE = _at(normed, (end, size), kind)
    for n in range(begin, end):
        squares = np.float32(0)
        if added:
            added_NE = _at(added, (end, size), kind)
            for e in range(size):
                x = hidden_NE[n, e] + _load(added_NE[n, e])
                hidden_NE[n, e] = x
                squares += x * x
        else:
            for e in range(size):
                squares += hidden_NE[n, e] * hidden_NE[n, e]
        factor = np.float32(1) / np.sqrt(squares / np.float32(size) + epsilon)
        for e in range(size):
            normed_NE[n, e] = _store(hidden_NE[n, e] * factor * weight_E[e], kind)


@njit(**_OPTIONS)
def silu(begin, end, kind, both, inner, size):  # type: ignore[no-untyped-def]
    """silu(gate) · up, of columns that hold first all gates, then all ups."""
    both_NF, inner_NF = _at(both, (end, 2 * size), kind), _at(inner, (end, size), kind)
    for n in range(begin, end):
        for f in range(size):
            gate = _load(both_NF[n, f])
            decay = _exp(min(max(-gate, -_MOST), _MOST))
            inner_NF[n, f] = _store(gate / (np.float32(1) + decay) * _load(both_NF[n, size + f]), kind)


@njit(**_OPTIONS)
def rounded(begin, end, kind, x, whole, scales, size):  # type: ignore[no-untyped-def]
    """Columns as whole numbers from -127 to 127, and their scales (`quantised.rounded`)."""
    x_NI, whole_NI = _at(x, (end, size), kind), _at(whole, (end, size), _WHOLE)
    scales_N = _at(scales, (end,), _WIDE)
    for n in range(begin, end):
        largest = _LEAST
        for i in range(size):
            largest = max(largest, abs(_load(x_NI[n, i])))
        scale = largest / np.float32(127)
        scales_N[n] = scale
        for i in range(size):
            whole_NI[n, i] = np.int8(np.rint(_load(x_NI[n, i]) / scale))


@njit(**_OPTIONS)
def scaled(begin, end, kind, sums, scales, found, size):  # type: ignore[no-untyped-def]
    """Sums, times the scales of their columns."""
    sums_NO, found_NO = _at(sums, (end, size), _WIDE), _at(found, (end, size), kind)
    scales_N = _at(scales, (end,), _WIDE)
    for n in range(begin, end):
        for o in range(size):
            found_NO[n, o] = _store(sums_NO[n, o] * scales_N[n], kind)


@njit(**_OPTIONS)
def low_rank(begin, end, kind, sums, x, where, a, b, outputs, ranks, parts, count, features, ranked, width):  # type: ignore[no-untyped-def]
    """Add B (A x) to the columns `where`: the As one below the other, of each part Bᵀ [rank, outputs] in turn."""
    sums_NO, x_NI = _at(sums, (count, width), kind), _at(x, (count, features), kind)
    where_M, a_TI, b_all = _at(where, (end,), _PLACE), _at(a, (ranked, features), kind), _at(b, (ranked * width,), kind)
    outputs_P, ranks_P = _at(outputs, (parts,), _PLACE), _at(ranks, (parts,), _PLACE)
    x_I, inner_T, added_O = np.empty(features, np.float32), np.empty(ranked, np.float32), np.empty(width, np.float32)
    for m in range(begin, end):
        sum_O, read_I = sums_NO[where_M[m]], x_NI[where_M[m]]
        for i in range(features):
            x_I[i] = _load(read_I[i])
        for t in range(0, ranked, AT_ONCE):
            _scores(a_TI[t], a_TI[t + 1], a_TI[t + 2], a_TI[t + 3], x_I, inner_T[t:])
        place, base, start = 0, 0, 0
        for p in range(parts):
            size, rank = outputs_P[p], ranks_P[p]
            b_TO = b_all[base : base + rank * size].reshape(rank, size)
            added_O[:size] = np.float32(0)
            for t in range(0, rank, AT_ONCE):
                _sum(inner_T[start + t :], b_TO[t], b_TO[t + 1], b_TO[t + 2], b_TO[t + 3], added_O)
            for o in range(size if rank else 0):
                sum_O[place + o] = _store(_load(sum_O[place + o]) + added_O[o], kind)
            place, base, start = place + size, base + rank * size, start + rank


@njit(**_OPTIONS)
def _scores(first_D, second_D, third_D, fourth_D, x_D, found):  # type: ignore[no-untyped-def]
    """The products of four rows with x."""
    first, second, third, fourth = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for d in range(len(x_D)):
        x = x_D[d]
        first += x * _load(first_D[d])
        second += x * _load(second_D[d])
        third += x * _load(third_D[d])
        fourth += x * _load(fourth_D[d])
    found[0], found[1], found[2], found[3] = first, second, third, fourth


@njit(**_OPTIONS)
def _sum(weights, first_D, second_D, third_D, fourth_D, sum_D):  # type: ignore[no-untyped-def]
    """Add four weighted rows to the sum."""
    first, second, third, fourth = weights[0], weights[1], weights[2], weights[3]
    for d in range(len(first_D)):
        sum_D[d] += (
            first * _load(first_D[d])
            + second * _load(second_D[d])
            + third * _load(third_D[d])
            + fourth * _load(fourth_D[d])
        )


@njit(**_OPTIONS)
def _weigh(weights_K, mask_K, last):  # type: ignore[no-untyped-def]
    """Make weights of the scores, 0 for keys that are not seen; their sum."""
    most, total = np.float32(-3e38), np.float32(0)
    for k in range(last):
        most = max(most, weights_K[k] + mask_K[k])
    for k in range(last):
        weight = _exp(max(weights_K[k] + mask_K[k] - most, -_MOST))
        weight = weight if mask_K[k] == 0 else np.float32(0)
        weights_K[k] = weight
        total += weight
    return total


@njit(**_OPTIONS)
def _end(mask_K):  # type: ignore[no-untyped-def]
    """Behind the last key that is seen, at a multiple of _STEP."""
    last = 0
    for k in range(len(mask_K)):
        if mask_K[k] == 0:
            last = k + 1
    return (last + _STEP - 1) // _STEP * _STEP


@cache
def place_of(size: int) -> Callable[..., None]:
    """A function for heads of so many numbers: loops of a known length are faster."""
    half, scale = size // 2, np.float32(size**-0.5)

    @njit(**_OPTIONS)
    def rotate(found_D, turn_2D, factor, turned_D):  # type: ignore[no-untyped-def]
        for d in range(half):
            x, y = _load(found_D[d]), _load(found_D[d + half])
            turned_D[d] = (x * turn_2D[0, d] + y * turn_2D[1, d]) * factor
            turned_D[d + half] = (y * turn_2D[0, d + half] + x * turn_2D[1, d + half]) * factor

    @njit(**_HOLDING)
    def place(begin, end, kind, found, rotations, keys, values, places, queries, heads, shared, slots):  # type: ignore[no-untyped-def]
        """Rotate queries and keys; put keys and values into the cache and the queries, scaled, where they are asked."""
        found_NHD = _at(found, (end, heads + 2 * shared, size), kind)
        turn_N2D, places_N = _at(rotations, (end, 2, size), _WIDE), _at(places, (end,), _PLACE)
        queries_NHD = _at(queries, (end, heads, size), _WIDE)
        for n in range(begin, end):
            offset = places_N[n] * size * 4
            keys_GSD = _at(keys + offset, (shared, slots, size), _WIDE)
            values_GSD = _at(values + offset, (shared, slots, size), _WIDE)
            for h in range(heads):
                rotate(found_NHD[n, h], turn_N2D[n], scale, queries_NHD[n, h])
            for g in range(shared):
                rotate(found_NHD[n, heads + g], turn_N2D[n], np.float32(1), keys_GSD[g, 0])
                for d in range(size):
                    values_GSD[g, 0, d] = _load(found_NHD[n, heads + shared + g, d])

    return place


@cache
def _score(size: int) -> Callable[..., None]:
    """A function for heads of so many numbers; it reads AT_ONCE keys at once."""

    @njit(**_OPTIONS)
    def score(query_D, keys_SD, last, weights_K):  # type: ignore[no-untyped-def]
        for k in range(0, last, AT_ONCE):
            first, second, third, fourth = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for d in range(size):
                q = query_D[d]
                first += q * keys_SD[k + 1, d]
                second += q * keys_SD[k + 2, d]
                third += q * keys_SD[k + 3, d]
                fourth += q * keys_SD[k + 4, d]
            weights_K[k], weights_K[k + 1], weights_K[k + 2], weights_K[k + 3] = first, second, third, fourth

    return score


@cache
def _add_up(size: int) -> Callable[..., None]:
    """A function for heads of so many numbers; it reads AT_ONCE values at once."""

    @njit(**_OPTIONS)
    def add_up(weights_K, values_SD, last, sum_D):  # type: ignore[no-untyped-def]
        for d in range(size):
            sum_D[d] = np.float32(0)
        for k in range(0, last, AT_ONCE):
            first, second, third, fourth = weights_K[k], weights_K[k + 1], weights_K[k + 2], weights_K[k + 3]
            for d in range(size):
                sum_D[d] += (
                    first * values_SD[k + 1, d]
                    + second * values_SD[k + 2, d]
                    + third * values_SD[k + 3, d]
                    + fourth * values_SD[k + 4, d]
                )

    return add_up


@cache
def attend_of(size: int) -> Callable[..., None]:
    """A function for heads of so many numbers."""
    score, add_up = _score(size), _add_up(size)

    @njit(**_HOLDING)
    def attend(begin, end, kind, queries, keys, values, mask, starts, found, heads, shared, slots, extent):  # type: ignore[no-untyped-def]
        """softmax(q kᵀ) v over the keys that a column sees."""
        queries_NHD, mask_NK = _at(queries, (end, heads, size), _WIDE), _at(mask, (end, extent), _WIDE)
        starts_N, found_NHD = _at(starts, (end,), _PLACE), _at(found, (end, heads, size), kind)
        weights_K, sum_D = np.empty(extent, np.float32), np.empty(size, np.float32)
        for n in range(begin, end):
            last = _end(mask_NK[n])
            for h in range(heads):
                offset = (starts_N[n] + h // (heads // shared) * slots) * size * 4
                score(queries_NHD[n, h], _at(keys + offset, (slots, size), _WIDE), last, weights_K)
                total = _weigh(weights_K, mask_NK[n], last)
                add_up(weights_K, _at(values + offset, (slots, size), _WIDE), last, sum_D)
                factor = np.float32(1) / total if total else np.float32(0)  # padding sees nothing
                for d in range(size):
                    found_NHD[n, h, d] = _store(sum_D[d] * factor, kind)

    return attend
