"""The steps of a pass on a GPU between its products with weights, each of them one kernel that Triton compiles.

A pass of few columns takes as long as its kernels are many: 2 to 6 µs each, whatever they compute. These take the place
of two to four of PyTorch's. They compute in float32 and round once, to the type of what they write; `TorchSteps` has
the same steps in PyTorch, their slow twin.

Shapes: R rows of Q columns, N of all are computed, H key-value heads, G query heads for each of them, D head size, E
hidden size, F inner size, O outputs.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
import triton
import triton.language as tl

from mars.engine.memory import Access
from mars.engine.window import Columns

TYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Of weights and hidden states; in double precision the kernels would lose half of it."""

_SILU_BLOCK = 1024
_MOST_WARPS = 8

# Programs are numbered by column, and by head or block of a column. What differs from pass to pass is no constant, and
# kernels are not specialised on it: each is compiled for few kinds of passes.


@triton.jit
def _norm(  # type: ignore[no-untyped-def]
    hidden,
    found,
    weight,
    total,
    normed,
    epsilon,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    ADDS: tl.constexpr,
):
    column = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    inside = places < SIZE
    x = tl.load(hidden + column * SIZE + places, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        x += tl.load(found + column * SIZE + places, mask=inside, other=0.0).to(tl.float32)
        tl.store(total + column * SIZE + places, x, mask=inside)
    weights = tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / SIZE + epsilon) * weights
    tl.store(normed + column * SIZE + places, y.to(normed.dtype.element_ty), mask=inside)


@triton.jit
def _silu(gate_up, inner, SIZE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    column = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < SIZE
    source = gate_up + column * (SIZE * 2) + places
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + SIZE, mask=inside, other=0.0).to(tl.float32)
    found = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(inner + column * SIZE + places, found.to(inner.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["columns", "first", "head_step", "value_step"])
def _place(  # type: ignore[no-untyped-def]
    heads,
    rotations,
    positions,
    places,
    real,
    queries,
    store,
    columns,
    first,
    head_step,
    value_step,
    SHARED: tl.constexpr,
    GROUPS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    PICKED: tl.constexpr,
):
    column = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half = tl.arange(0, BLOCK)
    inside = half < HALF
    width = SHARED * (GROUPS + 2) * 2 * HALF
    source = heads + column * width + head * (2 * HALF) + half
    left = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)

    # Values are not rotated. The sines carry the sign (`Network.rotations`).
    turns = head < SHARED * (GROUPS + 1)
    table = rotations + tl.load(positions + column) * (4 * HALF) + half
    cosine_left = tl.load(table, mask=inside, other=0.0).to(tl.float32)
    cosine_right = tl.load(table + HALF, mask=inside, other=0.0).to(tl.float32)
    sine_left = tl.load(table + 2 * HALF, mask=inside, other=0.0).to(tl.float32)
    sine_right = tl.load(table + 3 * HALF, mask=inside, other=0.0).to(tl.float32)
    turned_left = tl.where(turns, left * cosine_left + right * sine_left, left)
    turned_right = tl.where(turns, right * cosine_right + left * sine_right, right)

    # A query goes to [R, H, G, Q - first, D], unless its column is one of the first.
    number = column
    if PICKED:
        number = tl.load(real + column)
    row = number // columns
    query = number % columns - first
    target = queries + ((row * (SHARED * GROUPS) + head) * (columns - first) + query) * (2 * HALF) + half
    asks = inside & (head < SHARED * GROUPS) & (query >= 0)
    tl.store(target, turned_left.to(queries.dtype.element_ty), mask=asks)
    tl.store(target + HALF, turned_right.to(queries.dtype.element_ty), mask=asks)

    # Keys and values go to their places in the cache: of all heads the keys, then the values.
    kept = head - SHARED * GROUPS
    place = tl.load(places + column) + (kept % SHARED) * head_step + (kept // SHARED) * value_step
    target = store + place * (2 * HALF) + half
    told = inside & (kept >= 0)
    tl.store(target, turned_left.to(store.dtype.element_ty), mask=told)
    tl.store(target + HALF, turned_right.to(store.dtype.element_ty), mask=told)


@triton.jit(do_not_specialize=["columns"])
def _unfold(  # type: ignore[no-untyped-def]
    found,
    real,
    unfolded,
    columns,
    row_step,
    head_step,
    query_step,
    SHARED: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    PICKED: tl.constexpr,
):
    column = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    places = tl.arange(0, BLOCK)
    inside = places < SIZE
    number = column
    if PICKED:
        number = tl.load(real + column)
    row = number // columns
    query = (head % GROUPS) * columns + number % columns
    source = found + row * row_step + (head // GROUPS) * head_step + query * query_step + places
    x = tl.load(source, mask=inside, other=0.0)
    target = unfolded + (column * (SHARED * GROUPS) + head) * SIZE + places
    tl.store(target, x.to(unfolded.dtype.element_ty), mask=inside)


class Kernels:
    """The steps of a pass for a model with so many query heads and key-value heads of a size."""

    def __init__(self, heads: int, shared: int, size: int, epsilon: float):
        self._shared, self._groups, self._size, self._epsilon = shared, heads // shared, size, epsilon

    def norm(
        self, hidden_NE: torch.Tensor, found_NO: torch.Tensor | None, weight_E: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states, in float32 once a product is added to them; and their RMS norm in the type of its weights."""
        count, size = hidden_NE.shape
        normed_NE = hidden_NE.new_empty(count, size, dtype=weight_E.dtype)
        total_NE = hidden_NE if found_NO is None else hidden_NE.new_empty(count, size, dtype=torch.float32)
        block = triton.next_power_of_2(size)
        _norm[(count,)](
            hidden_NE,
            hidden_NE if found_NO is None else found_NO,
            weight_E,
            total_NE,
            normed_NE,
            self._epsilon,
            SIZE=size,
            BLOCK=block,
            ADDS=found_NO is not None,
            num_warps=min(max(block // 256, 1), _MOST_WARPS),
        )
        return total_NE, normed_NE

    def place(
        self,
        heads_NO: torch.Tensor,
        positions_N: torch.Tensor,
        access: Access,
        layer: int,
        first: int,
    ) -> torch.Tensor:
        """Put a layer's own keys and values into the cache; its rotated queries [R, H, G * (Q - first), D].

        `heads_NO` are queries, keys and values side by side. Those of the `first` columns of each row do not ask;
        queries of columns that are not computed are 0.
        """
        columns, store = access.columns, access.stores[layer]
        shape = (columns.rows, self._shared, self._groups * (columns.columns - first), self._size)
        make = torch.empty if columns.real_N is None else torch.zeros
        queries = make(shape, dtype=store.dtype, device=store.device)
        _place[(len(heads_NO), self._shared * (self._groups + 2))](
            heads_NO,
            access.rotations,
            positions_N,
            access.places_N,
            positions_N if columns.real_N is None else columns.real_N,
            queries,
            store,
            columns.columns,
            first,
            access.views[0].stride(1) // self._size,
            len(store) // 2,
            SHARED=self._shared,
            GROUPS=self._groups,
            HALF=self._size // 2,
            BLOCK=triton.next_power_of_2(self._size // 2),
            PICKED=columns.real_N is not None,
            num_warps=1,
        )
        return queries

    def unfold(self, found: torch.Tensor, columns: Columns, dtype: torch.dtype) -> torch.Tensor:
        """What attention found, [R, H, G * Q, D], with all heads of a column side by side [N, H * G * D].

        With one column a row it is a view.
        """
        split = found.unflatten(2, (self._groups, columns.columns)).permute(0, 3, 1, 2, 4)
        if columns.real_N is None and found.dtype == dtype and split.is_contiguous():
            return split.flatten(2).flatten(0, 1)
        if found.stride(3) != 1:
            found = found.contiguous()
        count = columns.rows * columns.columns if columns.real_N is None else len(columns.real_N)
        heads = self._shared * self._groups
        unfolded = found.new_empty(count, heads * self._size, dtype=dtype)
        _unfold[(count, heads)](
            found,
            found if columns.real_N is None else columns.real_N,
            unfolded,
            columns.columns,
            *found.stride()[:3],
            SHARED=self._shared,
            GROUPS=self._groups,
            SIZE=self._size,
            BLOCK=triton.next_power_of_2(self._size),
            PICKED=columns.real_N is not None,
            num_warps=1,
        )
        return unfolded

    def silu(self, gate_up_NO: torch.Tensor) -> torch.Tensor:
        """silu(gate) · up [N, F] of gates and ups side by side [N, 2F]."""
        count, size = len(gate_up_NO), gate_up_NO.shape[1] // 2
        inner_NF = gate_up_NO.new_empty(count, size)
        block = min(triton.next_power_of_2(size), _SILU_BLOCK)
        grid = count, triton.cdiv(size, block)
        _silu[grid](gate_up_NO, inner_NF, SIZE=size, BLOCK=block)
        return inner_NF


@cache
def usable(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether weights are of one of `TYPES` and Triton compiles for this device; if it fails, a warning says why.

    It needs a C compiler, and a driver that it knows.
    """
    if dtype not in TYPES:
        return False
    try:
        gate_up_NO = torch.zeros(1, 2, device=device, dtype=dtype)
        with torch.cuda.device_of(gate_up_NO):
            Kernels(1, 1, 2, 0.0).silu(gate_up_NO).tolist()
    except Exception as error:  # noqa: BLE001 - of any kind, also those of a compiler that Triton starts
        reason = str(error).partition("\n")[0] or type(error).__name__
        warnings.warn(f"Triton's kernels are off, PyTorch's run in their place: {reason}", stacklevel=2)
        return False
    return True
