"""What a pass on a CPU computes between its products with weights: compiled by numba, column by column.

PyTorch takes some forty operations a layer for it, and the weights that stream through the caches in between make each
of them slow. Every column is computed by itself and in one order, so it gets the same bits whatever shares its pass.
Hidden states, keys, values and scores are float32; what is multiplied with weights has their type, bfloat16 or float32.

Shapes: N columns that a pass computes, M of them (masks, or those that predict), E hidden size, H heads on G key-value
heads of D numbers, S slots, K slots 1 to extent - 1, F inner size, I and O input and output features, T summed ranks.
Functions take addresses of contiguous tensors, and a number whose type is that of the weights.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic, overload
from numba.np.unsafe.ndarray import to_fixed_tuple
from torch.nn import functional

from mars.engine.adapter import LowRank
from mars.engine.attention import KEY_STEP
from mars.engine.memory import Access
from mars.engine.window import Window

_WIDE, _COARSE, _PLACE = np.float32(0), np.uint16(0), np.int64(0)
_KINDS = {torch.float32: _WIDE, torch.bfloat16: _COARSE}
# Sums may be vectorised, in the one way that the compiler chose; infinities and NaN stay what they are.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_OPTIONS = {"fastmath": _FAST, "nogil": True, "cache": True, "error_model": "numpy"}
# A function that holds another compiled one is kept on no disk: numba would take it for a new one in each process.
_HOLDING = {**_OPTIONS, "cache": False}
_MOST = np.float32(87)  # exponents
# Sums over keys end at multiples, so that a longer extent adds zeros and nothing else.
_STEP = KEY_STEP
_AT_ONCE = 4  # rows that a loop reads: twice as fast as one by one
_WORTH_SHARING = 200_000  # multiplications
_PARTS = 4  # of the columns, for each thread


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
def _norm(begin, end, kind, hidden, added, weight, normed, size, epsilon):  # type: ignore[no-untyped-def]
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
def _silu(begin, end, kind, both, inner, size):  # type: ignore[no-untyped-def]
    """silu(gate) · up, of columns that hold first all gates, then all ups."""
    both_NF, inner_NF = _at(both, (end, 2 * size), kind), _at(inner, (end, size), kind)
    for n in range(begin, end):
        for f in range(size):
            gate = _load(both_NF[n, f])
            decay = _exp(min(max(-gate, -_MOST), _MOST))
            inner_NF[n, f] = _store(gate / (np.float32(1) + decay) * _load(both_NF[n, size + f]), kind)


@njit(**_OPTIONS)
def _low_rank(begin, end, kind, sums, x, where, a, b, outputs, ranks, parts, count, features, ranked, width):  # type: ignore[no-untyped-def]
    """Add B (A x) to the columns `where`: the As one below the other, of each part Bᵀ [rank, outputs] in turn."""
    sums_NO, x_NI = _at(sums, (count, width), kind), _at(x, (count, features), kind)
    where_M, a_TI, b_all = _at(where, (end,), _PLACE), _at(a, (ranked, features), kind), _at(b, (ranked * width,), kind)
    outputs_P, ranks_P = _at(outputs, (parts,), _PLACE), _at(ranks, (parts,), _PLACE)
    x_I, inner_T, added_O = np.empty(features, np.float32), np.empty(ranked, np.float32), np.empty(width, np.float32)
    for m in range(begin, end):
        sum_O, read_I = sums_NO[where_M[m]], x_NI[where_M[m]]
        for i in range(features):
            x_I[i] = _load(read_I[i])
        for t in range(0, ranked, _AT_ONCE):
            _scores(a_TI[t], a_TI[t + 1], a_TI[t + 2], a_TI[t + 3], x_I, inner_T[t:])
        place, base, start = 0, 0, 0
        for p in range(parts):
            size, rank = outputs_P[p], ranks_P[p]
            b_TO = b_all[base : base + rank * size].reshape(rank, size)
            added_O[:size] = np.float32(0)
            for t in range(0, rank, _AT_ONCE):
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
def _place(size: int) -> Callable[..., None]:
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
    """A function for heads of so many numbers; it reads _AT_ONCE keys at once."""

    @njit(**_OPTIONS)
    def score(query_D, keys_SD, last, weights_K):  # type: ignore[no-untyped-def]
        for k in range(0, last, _AT_ONCE):
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
    """A function for heads of so many numbers; it reads _AT_ONCE values at once."""

    @njit(**_OPTIONS)
    def add_up(weights_K, values_SD, last, sum_D):  # type: ignore[no-untyped-def]
        for d in range(size):
            sum_D[d] = np.float32(0)
        for k in range(0, last, _AT_ONCE):
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
def _attend(size: int) -> Callable[..., None]:
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


@intrinsic
def _call(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = ir.FunctionType(ir.IntType(32), []).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), [])

    return types.int32(types.int64), generate


@cache
def _openmp() -> tuple[Any, int] | None:
    """What has torch's own threads run a function (GOMP_parallel), and the address of what names a thread there.

    Threads of our own would wait for torch's, which spin between two products. None where torch has another library.
    """
    for name in Path(torch.__file__).parent.glob("lib/libgomp*"):
        library = ctypes.CDLL(str(name))
        library.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        return library.GOMP_parallel, int(ctypes.cast(library.omp_get_thread_num, ctypes.c_void_p).value or 0)
    return None


@lru_cache(maxsize=None, typed=True)  # zeros of two types are equal
def _task(kernel: Callable[..., None], kind: Any, length: int) -> int:
    """The address of a function that computes one thread's share of the columns."""

    @cfunc(types.void(types.voidptr))
    def task(data):  # type: ignore[no-untyped-def]
        given = carray(data, (3 + length,), np.int64)
        thread, threads, count = _call(given[0]), given[1], given[2]
        arguments = to_fixed_tuple(given[3:], length)
        for part in range(thread, _PARTS * threads, threads):  # later columns see more keys: some of all for each
            begin, end = count * part // (_PARTS * threads), count * (part + 1) // (_PARTS * threads)
            kernel(begin, end, kind, *arguments)

    return int(task.address)


def _run(kernel: Callable[..., None], kind: Any, count: int, work: int, *arguments: int) -> None:
    """Have the columns 0 to `count` computed, by all of torch's threads if it is much work."""
    threads = min(torch.get_num_threads(), count)
    openmp = _openmp() if threads > 1 and work >= _WORTH_SHARING else None
    if openmp is None:
        kernel(0, count, kind, *arguments)
        return
    parallel, number = openmp
    data = np.array((number, threads, count, *arguments), np.int64)
    parallel(_task(kernel, kind, len(arguments)), data.ctypes.data, threads, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the columns of a pass see of the cache, for all layers.

    `places_N` are the places of their first heads in `stores`, a tensor [2 * R * G * S, D] a layer; `starts_N` those of
    slot 0 of their rows. `mask_NK` is 0 for keys that a column sees. `rotations_N2D` are cosines and signed sines.
    """

    stores: Sequence[torch.Tensor]
    slots: int
    places_N: torch.Tensor
    starts_N: torch.Tensor
    mask_NK: torch.Tensor
    rotations_N2D: torch.Tensor

    def at(self, chosen_M: torch.Tensor) -> Seen:
        """That of some of these columns, which have been placed."""
        return replace(self, starts_N=self.starts_N[chosen_M], mask_NK=self.mask_NK[chosen_M])


class Compiled:
    """The steps of a pass for a model with these heads, whose weights are bfloat16 or float32."""

    def __init__(self, heads: int, shared: int, size: int, dtype: torch.dtype, epsilon: float):
        self._heads, self._shared, self._size = heads, shared, size
        self._dtype, self._kind, self._epsilon = dtype, _KINDS[dtype], np.float32(epsilon)
        self._place, self._attend = _place(size), _attend(size)

    def seen(self, window: Window, access: Access) -> Seen:
        """That of the columns that `access` says are computed."""
        pick = access.columns.pick
        if access.mask is None:
            raise ValueError("compiled passes need a mask, also one that hides nothing")
        return Seen(
            stores=access.stores,
            slots=access.views[0].stride(1) // self._size,
            places_N=access.places_N,
            starts_N=access.places_N - pick(window.slots_RQ.flatten()),
            mask_NK=pick(access.mask.flatten(0, 2)).contiguous(),
            rotations_N2D=access.rotations.index_select(0, pick(window.positions.flatten())),
        )

    def norm(self, hidden_NE: torch.Tensor, added_NE: torch.Tensor | None, weight_E: torch.Tensor) -> torch.Tensor:
        """The RMS norm [N, E] of the hidden states, in the type of the weights, after adding `added_NE` in place."""
        count, size = hidden_NE.shape
        normed_NE = torch.empty(count, size, dtype=self._dtype)
        added = 0 if added_NE is None else added_NE.data_ptr()
        addresses = hidden_NE.data_ptr(), added, weight_E.data_ptr(), normed_NE.data_ptr()
        _norm(0, count, self._kind, *addresses, size, self._epsilon)
        return normed_NE

    def silu(self, both_NF: torch.Tensor) -> torch.Tensor:
        """silu(gate) · up [N, F] of gates and ups [N, 2F]."""
        count, size = len(both_NF), both_NF.shape[1] // 2
        inner_NF = torch.empty(count, size, dtype=self._dtype)
        _run(_silu, self._kind, count, 4 * count * size, both_NF.data_ptr(), inner_NF.data_ptr(), size)
        return inner_NF

    def place(self, found_NO: torch.Tensor, seen: Seen, layer: int) -> torch.Tensor:
        """Put a layer's own keys and values into the cache; its queries [N, H * D], rotated and scaled."""
        count, width = len(found_NO), self._heads * self._size
        queries_NO = torch.empty(count, width)
        _run(
            self._place,
            self._kind,
            count,
            count * found_NO.shape[1],
            found_NO.data_ptr(),
            seen.rotations_N2D.data_ptr(),
            *self._addresses(seen, layer),
            seen.places_N.data_ptr(),
            queries_NO.data_ptr(),
            *(self._heads, self._shared, seen.slots),
        )
        return queries_NO

    def attend(self, queries_NO: torch.Tensor, seen: Seen, layer: int) -> torch.Tensor:
        """The attention [N, H * D] of queries that `place` gave."""
        count, extent = seen.mask_NK.shape
        found_NO = torch.empty(queries_NO.shape, dtype=self._dtype)
        _run(
            self._attend,
            self._kind,
            count,
            count * queries_NO.shape[1] * extent,
            queries_NO.data_ptr(),
            *self._addresses(seen, layer),
            seen.mask_NK.data_ptr(),
            seen.starts_N.data_ptr(),
            found_NO.data_ptr(),
            *(self._heads, self._shared, seen.slots, extent),
        )
        return found_NO

    def _addresses(self, seen: Seen, layer: int) -> tuple[int, int]:
        """Of a layer's keys and values."""
        store = seen.stores[layer]
        return store.data_ptr(), store.data_ptr() + store.numel() // 2 * store.itemsize


class CompiledPair:
    """A and B of linear layers that are one product (`gated.PRODUCTS`) with so many outputs; None adds nothing."""

    def __init__(self, pairs: Sequence[LowRank | None], outputs: Sequence[int]):
        there = [
            (functional.pad(pair.a_SI, (0, 0, 0, -len(pair.a_SI) % _AT_ONCE)), (pair.b_OS * pair.scale).t())
            for pair in pairs
            if pair is not None
        ]
        ranks = [0 if pair is None else len(pair.a_SI) + -len(pair.a_SI) % _AT_ONCE for pair in pairs]
        self._a_TI = torch.cat([a_SI for a_SI, _ in there])
        self._b = torch.cat([functional.pad(b_SO, (0, 0, 0, len(a_SI) - len(b_SO))).flatten() for a_SI, b_SO in there])
        self._kind = _KINDS[self._b.dtype]
        self._outputs, self._ranks = torch.tensor(outputs), torch.tensor(ranks)

    def add_to(self, sum_NO: torch.Tensor, x_NI: torch.Tensor, where_M: torch.Tensor | None) -> None:
        """Add B (A x) to the columns `where_M` of the sum, in place."""
        if where_M is None:
            raise ValueError("compiled passes need to know which columns are masks")
        ranked, features = self._a_TI.shape
        tensors = (sum_NO, x_NI, where_M, self._a_TI, self._b, self._outputs, self._ranks)
        sizes = len(self._ranks), len(sum_NO), features, ranked, sum_NO.shape[1]
        work = len(where_M) * (self._a_TI.numel() + self._b.numel())
        _run(_low_rank, self._kind, len(where_M), work, *(tensor.data_ptr() for tensor in tensors), *sizes)
