"""The steps of a pass on a CPU between its products with weights, by compiled kernels instead of PyTorch.

PyTorch takes some forty operations a layer for them, and the weights that stream through the caches in between slow
each one down. The kernels (mars/engine/kernels.py, which defines the shapes) give a column the same bits whatever
shares its pass. Wide passes are shared among torch's own threads. Where all weights are in tiles,
mars/engine/fused.py goes through all layers in one call, and this is its slow twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numba import carray, cfunc, typeof, types
from numba.np.unsafe.ndarray import to_fixed_tuple
from torch.nn import functional

from mars.engine import kernels
from mars.engine.adapter import LowRank
from mars.engine.heads import attend, head_kind, place
from mars.engine.memory import Access
from mars.engine.window import Window
from mars.engine.workers import openmp

_WORTH_SHARING = 200_000  # multiplications
_PARTS = 4  # of the columns, for each thread, unless they are few
_FEW = 8


_tasks: dict[tuple[Any, ...], int] = {}


def task_of(kernel: Callable[..., None], kind: Any, length: int) -> int:
    """The address of a function that computes one thread's share of the columns."""
    key = kernel, typeof(kind), length  # zeros of two types are equal
    if key not in _tasks:
        _tasks[key] = _task(kernel, kind, length)
    return _tasks[key]


def _task(kernel: Callable[..., None], kind: Any, length: int) -> int:
    with kernels.compiling():

        @cfunc(types.void(types.voidptr))
        def task(data):  # type: ignore[no-untyped-def]
            given = carray(data, (3 + length,), np.int64)
            thread, threads, count = kernels.call(given[0]), kernels.call(given[1]), given[2]
            arguments = to_fixed_tuple(given[3:], length)
            parts = threads * max(1, min(_PARTS, count // (_FEW * threads)))
            for part in range(thread, parts, threads):  # later columns see more keys: some of all for each
                begin, end = count * part // parts, count * (part + 1) // parts
                kernel(begin, end, kind, *arguments)

    return int(task.address)  # numba never frees code: addresses stay valid


def _run(kernel: Callable[..., None], kind: Any, count: int, work: int, *arguments: int) -> None:
    """Have the columns 0 to `count` computed, by all of torch's threads if it is much work."""
    threads = min(torch.get_num_threads(), count)
    library = openmp() if threads > 1 and work >= _WORTH_SHARING else None
    if library is None:
        kernel(0, count, kind, *arguments)
    else:
        library.run(task_of(kernel, kind, len(arguments)), threads, count, *arguments)


def top_token(
    logits: torch.Tensor, offsets_N: np.ndarray[Any, Any], ids_N: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The most probable token of each column, or `ids_N`, and its probability [N], float32.

    The columns begin with these numbers of the memory behind `logits` [..., V], float32.
    """
    count, size = len(offsets_N), logits.shape[-1]
    found_N = torch.empty(count, dtype=torch.int64) if ids_N is None else ids_N.contiguous()
    shares_N = torch.empty(count)
    addresses = logits.data_ptr(), offsets_N.ctypes.data, found_N.data_ptr(), shares_N.data_ptr()
    given = int(ids_N is not None)
    _run(kernels.top_token, kernels.WIDE, count, 4 * count * size, *addresses, size, given)
    return found_N, shares_N


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The part of the cache that the columns of a pass see, for all layers.

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
        self._dtype, self._kind, self._epsilon = dtype, kernels.KINDS[dtype], np.float32(epsilon)
        self._head_kind = head_kind(size, dtype)

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
        kernels.norm(0, count, self._kind, *addresses, size, self._epsilon)
        return normed_NE

    def silu(self, both_NF: torch.Tensor) -> torch.Tensor:
        """silu(gate) · up [N, F] of gates and ups [N, 2F]."""
        count, size = len(both_NF), both_NF.shape[1] // 2
        inner_NF = torch.empty(count, size, dtype=self._dtype)
        _run(kernels.silu, self._kind, count, 4 * count * size, both_NF.data_ptr(), inner_NF.data_ptr(), size, 0, size)
        return inner_NF

    def place(self, found_NO: torch.Tensor, seen: Seen, layer: int) -> torch.Tensor:
        """Put a layer's own keys and values into the cache; its queries [N, H * D], rotated and scaled."""
        count, width = len(found_NO), self._heads * self._size
        queries_NO = torch.empty(count, width)
        _run(
            place,
            self._head_kind,
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
            attend,
            self._head_kind,
            count * self._heads,
            count * queries_NO.shape[1] * extent,
            queries_NO.data_ptr(),
            *self._addresses(seen, layer),
            seen.mask_NK.data_ptr(),
            seen.starts_N.data_ptr(),
            found_NO.data_ptr(),
            *(self._heads, self._shared, seen.slots, extent, count),
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
            (functional.pad(pair.a_SI, (0, 0, 0, -len(pair.a_SI) % kernels.AT_ONCE)), (pair.b_OS * pair.scale).t())
            for pair in pairs
            if pair is not None
        ]
        ranks = [0 if pair is None else len(pair.a_SI) + -len(pair.a_SI) % kernels.AT_ONCE for pair in pairs]
        self._a_TI = torch.cat([a_SI for a_SI, _ in there])
        self._b = torch.cat([functional.pad(b_SO, (0, 0, 0, len(a_SI) - len(b_SO))).flatten() for a_SI, b_SO in there])
        self._kind = kernels.KINDS[self._b.dtype]
        self._outputs, self._ranks = torch.tensor(outputs), torch.tensor(ranks)

    def add_to(self, sum_NO: torch.Tensor, x_NI: torch.Tensor, where_M: torch.Tensor | None) -> None:
        """Add B (A x) to the columns `where_M` of the sum, in place."""
        if where_M is None:
            raise ValueError("compiled passes need to know which columns are masks")
        ranked, features = self._a_TI.shape
        tensors = (sum_NO, x_NI, where_M, self._a_TI, self._b, self._outputs, self._ranks)
        sizes = len(self._ranks), len(sum_NO), features, ranked, sum_NO.shape[1]
        work = len(where_M) * (self._a_TI.numel() + self._b.numel())
        _run(kernels.low_rank, self._kind, len(where_M), work, *(tensor.data_ptr() for tensor in tensors), *sizes)
