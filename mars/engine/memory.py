"""Keys and values of all layers in one preallocated tensor, and how one pass uses them.

Shapes: L layers, R rows, Q columns, S slots, N columns that a pass computes, K slots 1 to extent - 1, H key-value
heads, P = 2H of them for keys and values, D head size. Slot p + 1 holds position p; padding that is computed is written
to slot 0, which nobody reads.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from mars.engine.attention import attention_mask, stepped
from mars.engine.window import Columns, Window, columns_of

_KEY_STEP = 256  # reading hidden keys takes less time than capturing more graphs
_SLOT_STEP = 64  # of memories, whose slots take room on a GPU whether they are read or not


@dataclass(frozen=True, slots=True)
class Access:
    """The cache as one pass sees it.

    `columns` are those to compute. `stores` are a tensor [2 * R * H * S, D] for each layer to write at `places`
    [N * P], those of the first heads being `places_N`. `views` [R, H, K, D] of the window's rows are to read: keys and
    values alternate, layer by layer. `mask` is added to the scores [R, 1, Q, K]; None when nothing is hidden.
    `rotations` is what the model's method of that name gave for these rows.
    """

    columns: Columns
    stores: Sequence[torch.Tensor]
    places_N: torch.Tensor
    places: torch.Tensor
    views: Sequence[torch.Tensor]
    mask: torch.Tensor | None
    rotations: torch.Tensor

    def write(self, layer: int, keys_values_NPD: torch.Tensor) -> None:
        """Put the pass's own keys and values of a layer in their places: of each column all keys, then all values."""
        self.stores[layer].index_copy_(0, self.places, keys_values_NPD.flatten(0, 1))

    def read(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [R, H, K, D] of a layer."""
        return self.views[2 * layer], self.views[2 * layer + 1]


class Model(Protocol):
    """A network that reads windows with the help of a cache.

    `dtype` is that of keys, values and scores. A `steady` one gives a column the same bits whatever else is in a pass:
    it wants extents that are multiples of a step, and a mask always.
    """

    layers: int
    key_value_heads: int
    head_size: int
    dtype: torch.dtype
    device: torch.device
    steady: bool
    lean: bool  # whether it takes a None mask to mean that nothing is hidden, and can leave columns out

    def rotations(self, positions: int) -> torch.Tensor:
        """A table of rotations for at least so many positions; empty if it needs none."""

    def read(self, window: Window, access: Access) -> torch.Tensor:
        """Float32 logits [R, keep, V], -inf for the mask token."""


class Memory:
    """Room for `rows` rows of `slots` slots, slot 0 included, and the model that fills it.

    The tensor is [2L, R, H, S, D]: attention reads a head at a time, and its keys and values lie side by side.
    `warming` says that it took longer than later passes of its shape will (mars_kernels/cuda/graphs.py).
    """

    def __init__(self, model: Model, rows: int, slots: int):
        self.rows, self.slots = rows, slots
        heads = model.key_value_heads
        slots = stepped(slots) if model.steady else slots
        shape = (2 * model.layers, rows, heads, slots, model.head_size)
        # Zeros, not empty: a hidden slot still meets its attention weight as 0 * value, and 0 * NaN is NaN.
        self._tensor = _zeros(shape, model.dtype, model.device)
        self._stores = self._tensor.view(model.layers, -1, model.head_size).unbind()
        self._numbers = torch.arange(slots, device=model.device)
        self._offsets_R1 = torch.arange(rows, device=model.device)[:, None] * (heads * slots)
        offsets_H = torch.arange(heads, device=model.device) * slots
        self._offsets_P = torch.cat((offsets_H, offsets_H + rows * heads * slots))
        self._rotations = model.rotations(slots)
        self._model = model
        self._used = (0, 0)
        self.warming = False

    def forward(self, window: Window, *, static: bool = False) -> torch.Tensor:
        """Logits [R, keep, V] of a window within these rows and slots; `static` looks at no value on the device."""
        self.note(window.first + window.rows, window.extent)
        if self._model.steady:
            window = replace(window, extent=stepped(window.extent))
        hides = static or self._model.steady or not self._model.lean or not _sees_everything(window)
        first, end = window.first, window.first + window.rows
        slots_RQ = window.slots_RQ
        columns = columns_of(window, static=static or not self._model.lean)
        places_N = columns.pick((slots_RQ + self._offsets_R1[first:end] if end > 1 else slots_RQ).flatten())
        access = Access(
            columns=columns,
            stores=self._stores,
            places_N=places_N,
            places=(places_N[:, None] + self._offsets_P).flatten(),
            views=self._tensor[:, first:end, :, 1 : window.extent].unbind(),
            mask=attention_mask(window, self._numbers, self._model.dtype) if hides else None,
            rotations=self._rotations,
        )
        return self._model.read(window, access)

    def move(self, source: int, target: int, extent: int) -> None:
        """Copy the slots before `extent` of one row to another."""
        self._tensor[:, target, :, :extent] = self._tensor[:, source, :, :extent]

    def note(self, rows: int, slots: int) -> None:
        """Remember that of the first rows the first slots may be written, for `clear`."""
        most_rows, most_slots = self._used
        self._used = (max(most_rows, rows), max(most_slots, slots))

    def clear(self) -> None:
        """Forget what was written where `note` was told."""
        rows, slots = self._used
        self._tensor[:, :rows, :, :slots].zero_()
        self._used = (0, 0)


class Memories:
    """Memories that wait for the next rows: what the system has just handed out is slow to write at first.

    `runner_of` makes what runs passes of static shapes on one: its graphs belong to the memory.
    """

    def __init__(self, model: Model, runner_of: Callable[[Memory], Any] | None = None):
        self._model, self._runner_of = model, runner_of
        self._idle: list[tuple[Memory, Any]] = []

    def take(self, rows: int, slots: int) -> tuple[Memory, Any]:
        """One that is large enough, with nothing in it, and its runner or None."""
        # One `pop` at a time, for rows are opened and collected in any thread. A memory that does not fit is dropped: a
        # larger one may need its room.
        while self._idle:
            try:
                memory, runner = self._idle.pop()
            except IndexError:
                break
            if memory.rows >= rows and memory.slots >= slots:
                memory.clear()
                return memory, runner
        memory = Memory(self._model, rows, rounded_extent(slots, _SLOT_STEP))
        return memory, self._runner_of and self._runner_of(memory)

    def give_back(self, memory: Memory, runner: Any) -> None:
        """Keep the memory of rows that are gone."""
        self._idle.append((memory, runner))


def rounded_extent(extent: int, least: int = _KEY_STEP) -> int:
    """At least `extent`: 1 more than a multiple of `least` or, if more, of an eighth of the power of two below it.

    Slot 0 is not attended: so many keys are what GPU kernels take without a copy of the mask, and buckets stay few.
    """
    keys = max(extent - 1, 1)
    step = max(least, (1 << keys.bit_length()) // 16)
    return 1 + -(-keys // step) * step


def _zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of zeros. On a CPU those that are never written take no memory: `torch.zeros` would write them all."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    own = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    room = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, **own)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # a huge page would be there as a whole, for the few slots that a run fills
        room.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(room, dtype=dtype).view(shape)


def _sees_everything(window: Window) -> bool:
    """Whether the only column sees all slots up to the extent; on a GPU it is not worth waiting for the answer."""
    if window.rows * window.columns > 1 or window.slots_RQ.device.type != "cpu":
        return False
    return int(window.slots_RQ) == window.extent - 1
