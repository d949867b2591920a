"""All layers of a pass in one call, on CPUs for which there are kernels of our own (tiles.py).

Torch's own threads go through the layers together, each with its share of every step, and wait for each other between
two steps: thirteen calls a layer from Python took a third of the time of a pass. Weights are asked for ahead of their
product, those of the next one while the last is finished. It is the loop of `TorchSteps`, in machine code.

Half a layer ends with keys and values in the cache; the other one goes on from the queries, which may be fewer then.
Shapes: N columns, E hidden size, F inner size, K keys, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numba import njit, types
from torch.nn import functional

from mars.engine.backend import Backend, Weights
from mars.engine.memory import Access
from mars.engine.window import Columns, Window
from mars_kernels.cpu import steps
from mars_kernels.cpu.jit import COARSE, OPTIONS, PLACE, ROUNDED, at, call, call_with, compiled, rows_of, wait
from mars_kernels.cpu.layout import (
    BYTES,
    DEPTH,
    SCRATCH,
    TILE,
    Ahead,
    Product,
    scratch,
    share,
)
from mars_kernels.cpu.openmp import openmp
from mars_kernels.cpu.tiles import Tiled, begin_tiles, end_tiles, product, rows_dtype

_WEIGHT, _BIAS = range(2)  # of a product in the table of the model: their addresses


@njit(**OPTIONS)
def _multiply(kind, p, begin, end, depth, outputs, x, numbers, found, thread, ahead):  # type: ignore[no-untyped-def]
    """Blocks `begin` to `end` of a product; `numbers` are those of the table."""
    work = Product(begin, end, p.rows, depth, outputs, x, numbers[_WEIGHT], numbers[_BIAS], 0, found)
    product(kind, work, p.totals + SCRATCH * thread, ahead)


@njit(**OPTIONS)
def _layers(kind, p):  # type: ignore[no-untyped-def]
    """One thread's share of the halves of layers from `step` to `end`, and of the last norm behind the last one."""
    thread, threads, own = call(p.number), call(p.count), rows_of(kind)
    first, last = share(p.rows, thread, threads)
    hidden_depth, attended_depth, inner_depth = p.hidden_size // DEPTH, p.attended_size // DEPTH, p.inner_size // DEPTH
    hidden_span, attended_span, inner_span = hidden_depth * BYTES, attended_depth * BYTES, inner_depth * BYTES
    q0, q1 = share(p.width // TILE, thread, threads)
    o0, o1 = share(p.hidden_size // TILE, thread, threads)
    f0, f1 = share(p.inner_size // TILE, thread, threads)
    ups, both_size = p.inner_size // TILE, 2 * p.inner_size
    products, norms = at(p.products, (p.layers, 4, 2), PLACE), at(p.norms, (p.layers, 2), PLACE)
    begin_tiles(kind, p.rows, p.totals + SCRATCH * thread)
    step = p.step
    while step < p.end:
        layer = step // 2
        into, out, gate_up, down = products[layer, 0], products[layer, 1], products[layer, 2], products[layer, 3]
        if step % 2 == 0:
            steps.norm(p, first, last, norms[layer, 0], layer > 0, p.normed, own)
            wait(p.barrier)
            ahead = Ahead(out[_WEIGHT] + o0 * attended_span, attended_span)
            _multiply(kind, p, q0, q1, hidden_depth, p.width, p.normed, into, p.found, thread, ahead)
            wait(p.barrier)
            call_with(p.place, p.self, layer)
        else:
            call_with(p.attend, p.self, layer)
            wait(p.barrier)
            ahead = Ahead(gate_up[_WEIGHT] + f0 * hidden_span, hidden_span)
            _multiply(kind, p, o0, o1, attended_depth, p.hidden_size, p.attended, out, p.added, thread, ahead)
            wait(p.barrier)
            steps.norm(p, first, last, norms[layer, 1], True, p.normed, own)
            wait(p.barrier)
            ahead = Ahead(gate_up[_WEIGHT] + (ups + f0) * hidden_span, hidden_span)
            _multiply(kind, p, f0, f1, hidden_depth, both_size, p.normed, gate_up, p.both, thread, ahead)
            ahead = Ahead(down[_WEIGHT] + o0 * inner_span, inner_span)
            _multiply(kind, p, ups + f0, ups + f1, hidden_depth, both_size, p.normed, gate_up, p.both, thread, ahead)
            steps.silu(p, TILE * f0, TILE * f1, own)
            wait(p.barrier)
            following = products[layer + 1, 0, _WEIGHT] + q0 * hidden_span if step + 1 < p.end else 0
            ahead = Ahead(following, hidden_span)
            _multiply(kind, p, o0, o1, inner_depth, p.hidden_size, p.inner, down, p.added, thread, ahead)
        step += 1
        wait(p.barrier)
    if step == 2 * p.layers:
        steps.norm(p, first, last, p.last_norm, True, p.found, COARSE)
    end_tiles(kind, p.totals + SCRATCH * thread)


@lru_cache(maxsize=None, typed=True)  # zeros of two types are equal
def _task(kind: Any) -> int:
    """The address of a function that computes one thread's share."""

    def task(address):  # type: ignore[no-untyped-def]
        _layers(kind, steps.pass_at(address))

    return int(compiled(types.void(types.int64), task).address)


@cache
def _of_heads(step: Callable[..., None], size: int, rounded: bool) -> int:
    """The address of a step for heads of this size, which `_layers` need not be compiled anew for."""
    kind = steps.head_kind(size, ROUNDED if rounded else COARSE)

    def task(address, layer):  # type: ignore[no-untyped-def]
        step(steps.pass_at(address), layer, kind)

    return int(compiled(types.void(types.int64, types.int64), task, cache=False).address)


class CpuBackend(Backend):
    """The layers of a model whose weights are `Tiled`. Addresses of code stay valid, for numba frees none."""

    invariant = True

    def __init__(self, weights: Weights):
        super().__init__(weights)
        layers, first = weights.layers, weights.layers[0].products[0]
        self._norms = [norm.float() for each in layers for norm in (each.attention_norm, each.feed_forward_norm)]
        self._last_norm = weights.last_norm.float()
        self.kind = first.kind  # type: ignore[attr-defined]
        self._addresses = np.array([norm.data_ptr() for norm in self._norms])
        self._table = np.zeros((len(layers), 4, 2), np.int64)
        for numbers, layer in zip(self._table, layers, strict=True):
            for of_product, tiled in zip(numbers, layer.products, strict=True):
                bias = tiled.wide_bias_O  # type: ignore[attr-defined]
                of_product[:] = tiled.tiles.data_ptr(), 0 if bias is None else bias.data_ptr()  # type: ignore[attr-defined]
        inner_size = layers[0].products[3].inputs  # type: ignore[attr-defined]
        rounded = rows_dtype(self.kind) == torch.float32
        self.record = np.zeros(1, steps.PASS)
        self.record["hidden_size"], self.record["inner_size"] = len(self._last_norm), inner_size
        self.record["attended_size"] = weights.heads * weights.size
        self.record["width"] = (weights.heads + 2 * weights.shared) * weights.size
        self.record["heads"], self.record["shared"], self.record["layers"] = weights.heads, weights.shared, len(layers)
        self.record["norms"], self.record["last_norm"] = self._addresses.ctypes.data, self._last_norm.data_ptr()
        self.record["place"] = _of_heads(steps.place, weights.size, rounded)
        self.record["attend"] = _of_heads(steps.attend, weights.size, rounded)
        self.record["epsilon"], self.record["products"] = weights.epsilon, self._table.ctypes.data

    @staticmethod
    def linear(weight_OI: torch.Tensor, bias_O: torch.Tensor | None, *, pack: bool) -> Tiled:
        return Tiled(weight_OI, bias_O)

    @staticmethod
    def vocabulary(
        weight_VE: torch.Tensor, bias_V: torch.Tensor | None, *, pack: bool
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Sums in float32; a vocabulary that fills no tiles, for it has a mask of its own perhaps, is padded."""
        size = len(weight_VE)
        sums = Tiled(functional.pad(weight_VE, (0, 0, 0, -size % TILE))).sums

        def logits(x_NE: torch.Tensor) -> torch.Tensor:
            logits_NV = sums(x_NE)[:, :size]
            return logits_NV if bias_V is None else logits_NV.add_(bias_V)

        return logits

    def walk(self, hidden_NE: torch.Tensor, window: Window, access: Access) -> tuple[torch.Tensor, Columns] | None:
        """In two calls: up to the last queries, and from them on.

        Columns see the part of the cache at `places`, those of their first heads in a store of a layer; `starts` are
        those of slot 0 of their rows. `mask` [N, K] is 0 for keys that a column sees.
        """
        if access.mask is None:
            raise ValueError("compiled passes need a mask, also one that hides nothing")
        columns, weights, store = access.columns, self.weights, access.stores[0]
        stores = np.array([each.data_ptr() for each in access.stores])
        mask_NK = columns.pick(access.mask.flatten(0, 2)).contiguous()
        tensors = {
            "hidden": hidden_NE,
            "queries": torch.empty(len(hidden_NE), weights.heads * weights.size),
            "rotations": access.rotations.index_select(0, columns.pick(window.positions.flatten())),
            "places": access.places_N,
            "starts": access.places_N - columns.pick(window.slots_RQ.flatten()),
            "mask": mask_NK,
        }
        sizes = {
            "slots": access.views[0].stride(1) // weights.size,
            "half": store.numel() // 2 * store.itemsize,
            "stores": stores.ctypes.data,
            "extent": mask_NK.shape[1],
        }
        halves = 2 * len(weights.layers)
        self._run(range(halves - 1), tensors, sizes)
        if window.keep == 0:
            return None
        if window.keep < columns.columns:
            columns, chosen_M1 = columns.last(window.keep, torch.arange(len(hidden_NE))[:, None])
            for name in ("hidden", "queries", "starts", "mask"):
                tensors[name] = tensors[name][chosen_M1[:, 0]]
        return self._run(range(halves - 1, halves), tensors, sizes), columns

    def _run(self, halves: range, tensors: dict[str, torch.Tensor], sizes: dict[str, int]) -> torch.Tensor:
        """Compute these halves of layers; bfloat16 [N, E] that the vocabulary is multiplied with, behind the last one.

        `tensors` and `sizes` are numbers of `steps.PASS`.
        """
        record, (count, size) = self.record.copy(), tensors["hidden"].shape
        normed_NE = torch.empty(count, max(int(record["width"][0]), size), dtype=torch.bfloat16).flatten()
        if count == 0:  # tiles have at least one row
            return normed_NE.view(0, size)
        narrow, rows = torch.bfloat16, rows_dtype(self.kind)
        sized = {name: int(record[name][0]) for name in ("hidden_size", "attended_size", "inner_size")}
        room = {
            **tensors,
            "normed": torch.empty(count, size, dtype=rows),
            "attended": torch.empty(count, sized["attended_size"], dtype=rows),
            "inner": torch.empty(count, sized["inner_size"], dtype=rows),
            "found": normed_NE,
            "added": torch.empty(count, size, dtype=narrow),
            "both": torch.empty(count, 2 * sized["inner_size"], dtype=narrow),
            "totals": scratch(),
        }
        for name, tensor in room.items():
            record[name] = tensor.data_ptr()
        for name, number in sizes.items():
            record[name] = number
        record["rows"], record["step"], record["end"] = count, halves.start, halves.stop
        record["self"] = record.ctypes.data
        openmp().run(_task(self.kind), record)  # type: ignore[union-attr]  # see `kind_of_products`
        return normed_NE[: count * size].view(count, size)


def backend_for(device: torch.device, dtype: torch.dtype) -> type[Backend]:
    """The backend, where the model `tiles.fits`."""
    return CpuBackend
