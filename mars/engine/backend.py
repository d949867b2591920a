"""What a network runs on: its weights, and a backend that walks through its layers with them, here in PyTorch.

`TorchSteps` is the loop over the layers, on any device, and the reference of the other backends. On a CPU bfloat16 is
the type of weights and of what is multiplied with them; hidden states, keys, values and scores are float32 there.

Shapes: R rows, Q columns, N of all that are computed, E hidden size, F inner size, I and O input and output features of
a product, H heads of D numbers side by side, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn import functional

from mars.engine.attention import attend, share_mask
from mars.engine.linear import Linear, Projection, vocabulary_of
from mars.engine.memory import Access
from mars.engine.window import Columns, Window


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of a layer: those of its norms [E], and its products, in the order of `linear.PRODUCTS`."""

    attention_norm: torch.Tensor
    feed_forward_norm: torch.Tensor
    products: Sequence[Projection]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Those of a network, with so many query `heads` on `shared` key-value heads of a `size`."""

    layers: Sequence[Layer]
    last_norm: torch.Tensor
    heads: int
    shared: int
    size: int
    epsilon: float


class Backend(ABC):
    """What computes passes with the weights of a network.

    An `invariant` one gives a column the same bits whatever else is in a pass: it wants extents that are multiples of a
    step, and a mask always.
    """

    invariant = False

    def __init__(self, weights: Weights):
        self.weights = weights

    @staticmethod
    @abstractmethod
    def linear(weight_OI: torch.Tensor, bias_O: torch.Tensor | None, *, pack: bool) -> Projection:
        """The product of a layer; `pack` allows a second copy of the weights."""

    @staticmethod
    @abstractmethod
    def vocabulary(
        weight_VE: torch.Tensor, bias_V: torch.Tensor | None, *, pack: bool
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """The product with the vocabulary, float32 logits [N, V]."""

    @abstractmethod
    def walk(self, hidden_NE: torch.Tensor, window: Window, access: Access) -> tuple[torch.Tensor, Columns] | None:
        """Through all layers: normed states for the vocabulary, and their columns; None if `window.keep` is 0."""


class TorchSteps:
    """A pass. `hidden` are the states [N, E] that products are added to, `columns` those that are left of it."""

    def __init__(self, weights: Weights, hidden_NE: torch.Tensor, window: Window, access: Access):
        self.weights, self.hidden, self.access = weights, hidden_NE, access
        self.columns, self.keep = access.columns, window.keep
        self.positions_N = self.columns.pick(window.positions.flatten())
        self.mask = share_mask(access.mask, weights.heads // weights.shared)

    def walk(self) -> tuple[torch.Tensor, Columns] | None:
        """All layers, one after the other (`Backend.walk`)."""
        last = len(self.weights.layers) - 1
        for number, layer in enumerate(self.weights.layers):
            into, out, gate_up, down = layer.products
            heads_NO = into(self.norm(layer.attention_norm))
            # Behind the last keys and values only the columns matter whose predictions are wanted.
            first = self.columns.columns - self.keep if number == last else 0
            queries = self.place(number, heads_NO, first)
            if number == last and self.keep == 0:
                return None
            if first:
                self.drop(first)
            self.add(out, self.attend(number, queries))
            self.add(down, self.silu(gate_up(self.norm(layer.feed_forward_norm))))
        return self.norm(self.weights.last_norm), self.columns

    def drop(self, first: int) -> None:
        """Leave the first columns of each row out from now on."""
        mask = self.access.mask
        self.columns, self.hidden = self.columns.last(self.columns.columns - first, self.hidden)
        self.mask = share_mask(None if mask is None else mask[:, :, first:], self.weights.heads // self.weights.shared)

    def norm(self, weight_E: torch.Tensor) -> torch.Tensor:
        """The RMS norm of the states [N, E], in the type of its weights."""
        wide_E = weight_E.to(self.hidden.dtype)
        return torch.rms_norm(self.hidden, wide_E.shape, wide_E, self.weights.epsilon).to(weight_E.dtype)

    @cached_property
    def _turns(self) -> tuple[torch.Tensor, ...]:
        """Cosines and sines of the columns [N, 1, D]."""
        return self.access.rotations.index_select(0, self.positions_N).unbind(1)

    def place(self, layer: int, heads_NO: torch.Tensor, first: int) -> torch.Tensor:
        """Rotate and store a layer's keys and values; its rotated queries, without the first columns of each row."""
        weights, access = self.weights, self.access
        heads_NHD = heads_NO.to(self.hidden.dtype).view(len(heads_NO), -1, weights.size)
        _turn(heads_NHD.narrow(1, 0, weights.heads + weights.shared), *self._turns)
        queries_NHD, keys_values_NHD = heads_NHD.split_with_sizes([weights.heads, 2 * weights.shared], 1)
        access.write(layer, keys_values_NHD)
        return self.columns.spread(queries_NHD)[:, first:]

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        """What the queries find [N, H * D]."""
        found_TH = attend(queries, *self.access.read(layer), self.mask)
        return self.columns.pick(found_TH).to(self.weights.last_norm.dtype)

    def silu(self, both_NO: torch.Tensor) -> torch.Tensor:
        """silu(gate) · up [N, F] of gates and ups side by side [N, 2F]."""
        gate_NF, up_NF = both_NO.chunk(2, -1)
        return functional.silu(gate_NF).mul_(up_NF)

    def add(self, product: Projection, x_NI: torch.Tensor) -> None:
        """Add a product to the states, at once or before the next norm: the end of a residual branch."""
        product.add_to(self.hidden, x_NI)


class TorchBackend(Backend):
    """Passes as `TorchSteps`."""

    steps: type[TorchSteps] = TorchSteps

    @staticmethod
    def linear(weight_OI: torch.Tensor, bias_O: torch.Tensor | None, *, pack: bool) -> Linear:
        return Linear(weight_OI, bias_O, pack=pack)

    @staticmethod
    def vocabulary(
        weight_VE: torch.Tensor, bias_V: torch.Tensor | None, *, pack: bool
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        product = vocabulary_of(weight_VE, bias_V, pack=pack)
        return lambda x_NE: product.wide(x_NE.to(product.plain_weight().dtype))

    def walk(self, hidden_NE: torch.Tensor, window: Window, access: Access) -> tuple[torch.Tensor, Columns] | None:
        return self.steps(self.weights, hidden_NE, window, access).walk()


def _turn(heads_NHD: torch.Tensor, cosines_N1D: torch.Tensor, sines_N1D: torch.Tensor) -> None:
    """Rotary position embedding, in place; the sines carry the sign (`Network.rotations`)."""
    rolled_NHD = heads_NHD.roll(heads_NHD.shape[2] // 2, -1)
    heads_NHD.mul_(cosines_N1D).addcmul_(rolled_NHD, sines_N1D)
