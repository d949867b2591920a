"""The most probable token of each column and its probability, in one compiled function.

Shapes: N columns, V vocabulary.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numba import carray, njit, types

from mars.engine.backends.cpu.jit import MOST, OPTIONS, PLACE, WIDE, at, call, compiled, exp, pointer
from mars.engine.backends.cpu.openmp import THREADS, openmp

_LANES = 16  # numbers of which a loop keeps a maximum or a sum each
_SEARCHED = 1024  # numbers among which the first of the largest is looked for
_WORTH_SHARING = 50_000  # logits
_NUMBERS = "columns", "size", "given", "logits", "offsets", "ids", "shares"
_CALL = np.dtype([*THREADS, *((name, "i8") for name in _NUMBERS)])


def top_token(
    logits: torch.Tensor, offsets_N: np.ndarray[Any, Any], ids_N: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The most probable token of each column, or `ids_N`, and its probability [N], float32.

    The columns begin with these numbers of the memory behind `logits` [..., V], float32.
    """
    count, size = len(offsets_N), logits.shape[-1]
    found_N = torch.empty(count, dtype=torch.int64) if ids_N is None else ids_N.contiguous()
    shares_N = torch.empty(count)
    record = np.zeros(1, _CALL)
    addresses = logits.data_ptr(), offsets_N.ctypes.data, found_N.data_ptr(), shares_N.data_ptr()
    record[list(_NUMBERS)] = (count, size, ids_N is not None, *addresses)
    library = openmp() if count > 1 and count * size >= _WORTH_SHARING else None
    if library is None:
        _task().ctypes(record.ctypes.data)
    else:
        library.run(_task().address, record)
    return found_N, shares_N


@cache
def _task() -> Any:
    def task(address):  # type: ignore[no-untyped-def]
        given = carray(pointer(address), (1,), _CALL)[0]
        thread, threads = (call(given.number), call(given.count)) if given.number else (0, 1)
        _find(given, given.columns * thread // threads, given.columns * (thread + 1) // threads)

    return compiled(types.void(types.int64), task)


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
def _find(given, begin, end):  # type: ignore[no-untyped-def]
    """The probability of a token under the softmax of float32 logits: the most probable one's, or that which is given.

    Of equal logits the first counts. It is not a number if a logit is none.
    """
    offsets_N, ids_N = at(given.offsets, (end,), PLACE), at(given.ids, (end,), PLACE)
    shares_N, of_lanes_L = at(given.shares, (end,), WIDE), np.empty(_LANES, np.float32)
    for n in range(begin, end):
        logits_V = at(given.logits + offsets_N[n] * 4, (given.size,), WIDE)
        most, first = _largest(logits_V, of_lanes_L)
        if not given.given:
            ids_N[n] = first
        less = logits_V[ids_N[n]] - most
        shares_N[n] = (np.float32(0) if less < -MOST else exp(less)) / _mass(logits_V, most, of_lanes_L)
