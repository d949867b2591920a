"""The steps of a pass in PyTorch, on any device: the reference of the other backends.

On a CPU bfloat16 is the type of weights and of what is multiplied with them; hidden states, keys, values and scores are
float32 there. Shapes are those of mars/engine/backend.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Self

import torch
from torch.nn import functional

from mars.engine.adapter import Adapter
from mars.engine.attention import attend, share_mask
from mars.engine.backend import HEADS, Backend, Steps, Weights
from mars.engine.gated import Gate, Pairs, pairs_of
from mars.engine.linear import Linear, vocabulary_of
from mars.engine.memory import Access
from mars.engine.window import Window


class TorchSteps(Steps):
    """A pass; `pairs` are those of the adapter."""

    def __init__(
        self,
        weights: Weights,
        pairs: Sequence[Sequence[Pairs | None]],
        hidden: torch.Tensor,
        gate: Gate | None,
        window: Window,
        access: Access,
    ):
        super().__init__(weights, hidden, gate, window, access)
        self._pairs = pairs
        self.positions_N = self.columns.pick(window.positions.flatten())
        self.mask = share_mask(access.mask, weights.heads // weights.shared)

    @cached_property
    def _turns(self) -> tuple[torch.Tensor, ...]:
        """Cosines and sines of the columns [N, 1, D]."""
        return self.access.rotations.index_select(0, self.positions_N).unbind(1)

    def drop(self, first: int) -> None:
        super().drop(first)
        mask = self.access.mask
        self.mask = share_mask(None if mask is None else mask[:, :, first:], self.weights.heads // self.weights.shared)

    def norm(self, weight_E: torch.Tensor) -> torch.Tensor:
        wide_E = weight_E.to(self.hidden.dtype)
        return torch.rms_norm(self.hidden, wide_E.shape, wide_E, self.weights.epsilon).to(weight_E.dtype)

    def product(self, layer: int, product: int, x_NI: torch.Tensor) -> torch.Tensor:
        found_NO = self.weights.layers[layer].products[product](x_NI)
        if product == HEADS:
            found_NO = found_NO.to(self.hidden.dtype)
        self.adapt(layer, product, found_NO, x_NI)
        return found_NO

    def adapt(self, layer: int, product: int, sum_NO: torch.Tensor, x_NI: torch.Tensor) -> None:
        """Add what the adapter adds to a product at masks, in place."""
        pairs = self._pairs[layer][product] if self.gate is not None and layer < len(self._pairs) else None
        if pairs is not None and self.gate is not None:
            pairs.add(self.gate, sum_NO, x_NI)

    def place(self, layer: int, heads_NO: torch.Tensor, first: int) -> torch.Tensor:
        weights, access = self.weights, self.access
        heads_NHD = heads_NO.view(len(heads_NO), -1, weights.size)
        _turn(heads_NHD.narrow(1, 0, weights.heads + weights.shared), *self._turns)
        queries_NHD, keys_values_NHD = heads_NHD.split_with_sizes([weights.heads, 2 * weights.shared], 1)
        access.write(layer, keys_values_NHD)
        return self.columns.spread(queries_NHD)[:, first:]

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        found_TH = attend(queries, *self.access.read(layer), self.mask)
        return self.columns.pick(found_TH).to(self.weights.last_norm.dtype)

    def silu(self, both_NO: torch.Tensor) -> torch.Tensor:
        gate_NF, up_NF = both_NO.chunk(2, -1)
        return functional.silu(gate_NF).mul_(up_NF)

    def add(self, layer: int, product: int, x_NI: torch.Tensor) -> None:
        self.weights.layers[layer].products[product].add_to(self.hidden, x_NI)
        self.adapt(layer, product, self.hidden, x_NI)


class TorchBackend(Backend):
    """Passes as `TorchSteps`."""

    steps: type[TorchSteps] = TorchSteps

    def __init__(self, weights: Weights, wide: torch.dtype):
        super().__init__(weights, wide)
        self._pairs: list[list[Pairs | None]] = []

    @staticmethod
    def linear(weight_OI: torch.Tensor, bias_O: torch.Tensor | None, *, pack: bool) -> Linear:
        return Linear(weight_OI, bias_O, pack=pack)

    @staticmethod
    def vocabulary(
        weight_VE: torch.Tensor, bias_V: torch.Tensor | None, *, pack: bool
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        product = vocabulary_of(weight_VE, bias_V, pack=pack)
        return lambda x_NE: product.wide(x_NE.to(product.plain_weight().dtype))

    def adapted(self, adapter: Adapter, outputs: Sequence[Sequence[int]]) -> Self:
        other = copy.copy(self)
        other._pairs = pairs_of(adapter, outputs, self.wide)
        return other

    def begin(self, hidden_NE: torch.Tensor, gate: Gate | None, window: Window, access: Access) -> TorchSteps:
        return self.steps(self.weights, self._pairs, hidden_NE, gate, window, access)


def _turn(heads_NHD: torch.Tensor, cosines_N1D: torch.Tensor, sines_N1D: torch.Tensor) -> None:
    """Rotary position embedding, in place; the sines carry the sign (`Network.rotations`)."""
    rolled_NHD = heads_NHD.roll(heads_NHD.shape[2] // 2, -1)
    heads_NHD.mul_(cosines_N1D).addcmul_(rolled_NHD, sines_N1D)
