"""Functions that numba compiles for passes on a CPU: the steps between two products with weights, column by column.

Every column is computed by itself and in one order, so it gets the same bits whatever shares its pass. Hidden states,
keys, values and scores are float32; what is multiplied with weights has their type, bfloat16 or float32.

Shapes: N columns that a pass computes, M of them (masks, or those that predict), E hidden size, F inner size, I and O
input and output features, T summed ranks. All compute the columns `begin` to `end`. They take addresses of contiguous
tensors, and `kind`, a number whose type is that of the weights.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from llvmlite import ir
from numba import carray, config, njit, types
from numba.core.caching import IndexDataCacheFile
from numba.extending import overload

from mars.engine.instructions import emitted
from mars.engine.vectors import multiply_add, sum_of_products

_UNUSED = 30 * 24 * 3600  # seconds after which a folder of another version is removed


def _places(here: Path) -> list[Path]:
    """The folders that may keep compiled functions, the best one first."""
    if config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return [Path(config.CACHE_DIR)]
    try:
        from platformdirs import user_cache_dir  # not installed everywhere
    except ImportError:
        return [here / "__pycache__"]
    return [here / "__pycache__", Path(user_cache_dir("mars-lens", appauthor=False))]


def cache_folder(sources: Path, places: Sequence[Path]) -> Path:
    """A folder for what was compiled of this version of the sources, in the first place that can be written.

    numba sees that the file of a function has changed, but not that of another which the function calls or takes a
    constant from. Where no place can be written, the folder is a temporary one.
    """
    contents = b"".join(file.read_bytes() for file in sorted(sources.glob("*.py")))
    name = f"numba-{hashlib.sha256(contents).hexdigest()[:12]}"
    for place in places:
        folder = place / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                os.utime(folder)
        except OSError:
            continue
        for other in place.glob("numba-*"):
            with suppress(FileNotFoundError):  # another process may remove it too
                if time.time() - other.stat().st_mtime > _UNUSED:
                    shutil.rmtree(other, ignore_errors=True)
        return folder
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _save_one_at_a_time() -> None:
    """Lock the index of what numba keeps of a module's function while something is added.

    Two processes that compile it for different types would take the same name for two files, and later ones would load
    the wrong code.
    """
    save = IndexDataCacheFile.save

    def locked(self: Any, key: Any, data: Any) -> None:
        with FileLock(f"{self._index_path}.lock"):
            save(self, key, data)

    IndexDataCacheFile.save = locked


def compiling() -> FileLock:
    """To be held while much is compiled: where several processes need it at once, one compiles and the others load."""
    return FileLock(Path(config.CACHE_DIR) / "compiling.lock")


_save_one_at_a_time()
config.CACHE_DIR = str(cache_folder(Path(__file__).parent, _places(Path(__file__).parent)))
WIDE, COARSE, PLACE, WHOLE = np.float32(0), np.uint16(0), np.int64(0), np.int8(0)
PAIRS = np.uint32(0)  # of bfloat16, as AVX512-BF16 multiplies them
WIDENED = np.uint64(0)  # pairs of bfloat16, made float32 before they are multiplied, as AVX2 can
ROUNDED = np.float64(0)  # float32 that are rounded to bfloat16: what is multiplied with weights of that kind
KINDS = {torch.float32: WIDE, torch.bfloat16: COARSE}
# Without fastmath: LLVM optimises a function anew wherever another one calls it, and must not find other sums there. So
# sums have an order that is written down (mars/engine/vectors.py).
OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy"}
MOST = np.float32(87)  # exponents
_LEAST = np.float32(np.finfo(np.float32).tiny)
_UNSIGNED = np.int32(0x7FFFFFFF)
_LANES = 16  # numbers of which a loop keeps a maximum or a sum each
_SEARCHED = 1024  # numbers among which the first of the largest is looked for
AT_ONCE = 4  # rows that a loop reads: twice as fast as one by one


@emitted(types.voidptr, types.int64)
def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(8).as_pointer())


@emitted(types.int32, types.int64)
def call(builder: Any, address: Any) -> Any:
    """The int32 of a function without arguments, by its address."""
    function = ir.FunctionType(ir.IntType(32), []).as_pointer()
    return builder.call(builder.inttoptr(address, function), [])


@emitted(types.none, types.int64, types.int64)
def call_with(builder: Any, address: Any, data: Any) -> None:
    """Call a function that reads numbers at an address (`compiled.task_of`), or a barrier, which reads none."""
    pointer = ir.IntType(8).as_pointer()
    function = ir.FunctionType(ir.VoidType(), [pointer]).as_pointer()
    builder.call(builder.inttoptr(address, function), [builder.inttoptr(data, pointer)])


@emitted(types.int32, types.float32)
def _bits(builder: Any, x: Any) -> Any:
    return builder.bitcast(x, ir.IntType(32))


@emitted(types.float32, types.int32)
def _float(builder: Any, x: Any) -> Any:
    return builder.bitcast(x, ir.FloatType())


def at(address: Any, shape: Any, kind: Any) -> Any:
    """The array at an address; bfloat16 is read as uint16."""


def load(x: Any) -> Any:
    """The float32 of a stored number."""


def store(x: Any, kind: Any) -> Any:
    """A float32 as it is stored, rounded to the nearest."""


def products_of(kind: Any) -> Any:
    """The `kind` of products whose inputs are of this one."""


def rows_of(kind: Any) -> Any:
    """The `kind` of what is multiplied with weights of this one."""


@overload(at, inline="always")
def _(address, shape, kind):  # type: ignore[no-untyped-def]
    if kind == types.uint16:
        return lambda address, shape, kind: carray(_pointer(address), shape, np.uint16)
    if kind == types.int8:
        return lambda address, shape, kind: carray(_pointer(address), shape, np.int8)
    if kind == types.int64:
        return lambda address, shape, kind: carray(_pointer(address), shape, np.int64)
    return lambda address, shape, kind: carray(_pointer(address), shape, np.float32)


@overload(load, inline="always")
def _(x):  # type: ignore[no-untyped-def]
    if x == types.uint16:
        return lambda x: _float(np.int32(x) << np.int32(16))
    return lambda x: x


@overload(store, inline="always")
def _(x, kind):  # type: ignore[no-untyped-def]
    if kind == types.float64:
        return lambda x, kind: load(store(x, COARSE))
    if kind != types.uint16:
        return lambda x, kind: x

    def rounded(x, kind):  # type: ignore[no-untyped-def]
        bits = _bits(x)
        return np.uint16((bits + np.int32(0x7FFF) + ((bits >> np.int32(16)) & np.int32(1))) >> np.int32(16))

    return rounded


@overload(products_of, inline="always")
def _(kind):  # type: ignore[no-untyped-def]
    return (lambda kind: COARSE) if kind == types.float64 else (lambda kind: kind)


@overload(rows_of, inline="always")
def _(kind):  # type: ignore[no-untyped-def]
    return (lambda kind: ROUNDED) if kind == types.uint64 else (lambda kind: COARSE)


@njit(inline="always")
def exp(x):  # type: ignore[no-untyped-def]
    """e^x for x from -87 to 88, to a few units in the last place: Cephes' polynomial, which vectorises."""
    twos = np.floor(multiply_add(x, np.float32(1.44269504088896341), np.float32(0.5)))
    x = multiply_add(twos, np.float32(-0.693359375), x)
    x = multiply_add(twos, np.float32(2.12194440e-4), x)
    y = multiply_add(np.float32(1.9875691500e-4), x, np.float32(1.3981999507e-3))
    y = multiply_add(y, x, np.float32(8.3334519073e-3))
    y = multiply_add(y, x, np.float32(4.1665795894e-2))
    y = multiply_add(y, x, np.float32(1.6666665459e-1))
    y = multiply_add(y, x, np.float32(5.0000001201e-1))
    y = multiply_add(y, x * x, x) + np.float32(1)
    return y * _float((np.int32(twos) + np.int32(127)) << np.int32(23))


@njit(**OPTIONS)
def norm(begin, end, kind, hidden, added, weight, normed, size, epsilon):  # type: ignore[no-untyped-def]
    """Add `added` to the hidden states, unless it is 0, and norm them: x / sqrt(|x|² / E + ε) · w."""
    hidden_NE, weight_E = at(hidden, (end, size), WIDE), at(weight, (size,), WIDE)
    normed_NE = at(normed, (end, size), kind)
    for n in range(begin, end):
        if added:
            added_NE = at(added, (end, size), products_of(kind))
            for e in range(size):
                hidden_NE[n, e] += load(added_NE[n, e])
        own = hidden + n * size * 4
        squares = sum_of_products(own, own, size, WIDE)
        factor = np.float32(1) / np.sqrt(squares / np.float32(size) + epsilon)
        for e in range(size):
            normed_NE[n, e] = store(hidden_NE[n, e] * factor * weight_E[e], kind)


@njit(**OPTIONS)
def silu(begin, end, kind, both, inner, size, first, last):  # type: ignore[no-untyped-def]
    """silu(gate) · up from number `first` to `last`, of columns that hold first all gates, then all ups."""
    count, own = last - first, products_of(kind)
    read, written = at(both, (1,), own).itemsize, at(inner, (1,), kind).itemsize
    for n in range(begin, end):
        # Views that begin with 0: numba allows for negative numbers, of which LLVM cannot make vectors.
        start = both + (2 * n * size + first) * read
        gate_F, up_F = at(start, (count,), own), at(start + size * read, (count,), own)
        inner_F = at(inner + (n * size + first) * written, (count,), kind)
        for f in range(count):
            gate = load(gate_F[f])
            decay = exp(min(max(-gate, -MOST), MOST))
            inner_F[f] = store(gate / (np.float32(1) + decay) * load(up_F[f]), kind)


@njit(**OPTIONS)
def _largest(logits_V, most_L):  # type: ignore[no-untyped-def]
    """The largest logit, and the number of the first one that is as large."""
    size = len(logits_V)
    whole = size - size % _LANES
    most, first = np.float32(-np.inf), 0
    for start in range(0, whole, _SEARCHED):
        most_L[:] = np.float32(-np.inf)
        for v in range(start, min(start + _SEARCHED, whole), _LANES):
            for lane in range(_LANES):
                logit = logits_V[v + lane]
                most_L[lane] = logit if logit > most_L[lane] else most_L[lane]
        found = most_L.max()
        first = start if found > most else first
        most = found if found > most else most
    for v in range(whole, size):
        first = v if logits_V[v] > most else first
        most = logits_V[v] if logits_V[v] > most else most
    while first < size - 1 and logits_V[first] != most:
        first += 1
    return most, first


@njit(**OPTIONS)
def _mass(logits_V, most, total_L):  # type: ignore[no-untyped-def]
    """The sum of e^(logit - most); not a number if a logit is none."""
    size = len(logits_V)
    whole = size - size % _LANES
    total_L[:] = np.float32(0)
    for v in range(0, whole, _LANES):
        for lane in range(_LANES):
            less = logits_V[v + lane] - most
            total_L[lane] += exp(-MOST if less < -MOST else less)
    total = total_L.sum()
    for v in range(whole, size):
        less = logits_V[v] - most
        total += exp(-MOST if less < -MOST else less)
    return total


@njit(**OPTIONS)
def top_token(begin, end, kind, logits, offsets, ids, shares, size, given):  # type: ignore[no-untyped-def]
    """The probability of a token under the softmax of float32 logits: the most probable one's, or that of `ids`.

    Column n has `size` logits from number `offsets[n]` on. Of equal logits the first counts. It is not a number if a
    logit is none.
    """
    offsets_N, ids_N, shares_N = at(offsets, (end,), PLACE), at(ids, (end,), PLACE), at(shares, (end,), WIDE)
    of_lanes_L = np.empty(_LANES, np.float32)
    for n in range(begin, end):
        logits_V = at(logits + offsets_N[n] * 4, (size,), WIDE)
        most, first = _largest(logits_V, of_lanes_L)
        if not given:
            ids_N[n] = first
        less = logits_V[ids_N[n]] - most
        shares_N[n] = (np.float32(0) if less < -MOST else exp(less)) / _mass(logits_V, most, of_lanes_L)


@njit(**OPTIONS)
def rounded(begin, end, kind, x, whole, scales, size):  # type: ignore[no-untyped-def]
    """Columns as whole numbers from -127 to 127, and their scales (`quantised.rounded`)."""
    x_NI, whole_NI = at(x, (end, size), kind), at(whole, (end, size), WHOLE)
    scales_N = at(scales, (end,), WIDE)
    for n in range(begin, end):
        largest = _bits(_LEAST)
        for i in range(size):
            largest = max(largest, _bits(load(x_NI[n, i])) & _UNSIGNED)  # as whole numbers, which vectorise
        scale = _float(largest) / np.float32(127)
        scales_N[n] = scale
        for i in range(size):
            whole_NI[n, i] = np.int8(np.rint(load(x_NI[n, i]) / scale))


@njit(**OPTIONS)
def scaled(begin, end, kind, sums, scales, found, size):  # type: ignore[no-untyped-def]
    """Sums, times the scales of their columns."""
    sums_NO, found_NO = at(sums, (end, size), WIDE), at(found, (end, size), kind)
    scales_N = at(scales, (end,), WIDE)
    for n in range(begin, end):
        for o in range(size):
            found_NO[n, o] = store(sums_NO[n, o] * scales_N[n], kind)


@njit(**OPTIONS)
def low_rank(begin, end, kind, sums, x, where, a, b, outputs, ranks, parts, count, features, ranked, width):  # type: ignore[no-untyped-def]
    """Add B (A x) to the columns `where`: the As one below the other, of each part Bᵀ [rank, outputs] in turn."""
    sums_NO, x_NI = at(sums, (count, width), kind), at(x, (count, features), kind)
    where_M, a_TI, b_all = at(where, (end,), PLACE), at(a, (ranked, features), kind), at(b, (ranked * width,), kind)
    outputs_P, ranks_P = at(outputs, (parts,), PLACE), at(ranks, (parts,), PLACE)
    x_I, inner_T, added_O = np.empty(features, np.float32), np.empty(ranked, np.float32), np.empty(width, np.float32)
    row_size = features * a_TI.itemsize
    for m in range(begin, end):
        sum_O, read_I = sums_NO[where_M[m]], x_NI[where_M[m]]
        for i in range(features):
            x_I[i] = load(read_I[i])
        for t in range(ranked):
            inner_T[t] = sum_of_products(x_I.ctypes.data, a + t * row_size, features, kind)
        place, base, start = 0, 0, 0
        for p in range(parts):
            size, rank = outputs_P[p], ranks_P[p]
            b_TO = b_all[base : base + rank * size].reshape(rank, size)
            added_O[:size] = np.float32(0)
            for t in range(0, rank, AT_ONCE):
                _sum(inner_T[start + t :], b_TO[t], b_TO[t + 1], b_TO[t + 2], b_TO[t + 3], added_O)
            for o in range(size if rank else 0):
                sum_O[place + o] = store(load(sum_O[place + o]) + added_O[o], kind)
            place, base, start = place + size, base + rank * size, start + rank


@njit(**OPTIONS)
def _sum(weights, first_D, second_D, third_D, fourth_D, sum_D):  # type: ignore[no-untyped-def]
    """Add four weighted rows to the sum."""
    first, second, third, fourth = weights[0], weights[1], weights[2], weights[3]
    for d in range(len(first_D)):
        total = multiply_add(first, load(first_D[d]), sum_D[d])
        total = multiply_add(second, load(second_D[d]), total)
        total = multiply_add(third, load(third_D[d]), total)
        sum_D[d] = multiply_add(fourth, load(fourth_D[d]), total)
