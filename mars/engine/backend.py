"""The loop over the layers of a pass, and the steps that a backend computes for it (mars/engine/backends).

Shapes: R rows, Q columns, N of all that are computed, E hidden size, F inner size, I and O input and output features of
a product, H heads of D numbers side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mars.engine.adapter import Adapter
from mars.engine.gated import Gate
from mars.engine.linear import Projection
from mars.engine.memory import Access
from mars.engine.window import Columns, Window

# The products of a layer, in the order of `Layer.products`: queries, keys and values are one, gate and up are another.
HEADS, OUT, GATE_UP, DOWN = range(4)


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of a layer: those of its norms [E], and its products."""

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


class Pass(Protocol):
    """One pass over the layers; `columns` and `gate` are those that are left of it."""

    columns: Columns
    gate: Gate | None

    def walk(self) -> torch.Tensor | None:
        """The normed states [N, E] that the vocabulary is multiplied with; None if no predictions are wanted."""


class Steps(ABC):
    """A pass as single steps. `hidden` are the states [N, E] that products are added to."""

    def __init__(self, weights: Weights, hidden: torch.Tensor, gate: Gate | None, window: Window, access: Access):
        self.weights, self.hidden, self.gate = weights, hidden, gate
        self.columns, self.keep, self.access = access.columns, window.keep, access

    def walk(self) -> torch.Tensor | None:
        """All layers, one after the other (`Pass.walk`)."""
        last = len(self.weights.layers) - 1
        for number, layer in enumerate(self.weights.layers):
            heads_NO = self.product(number, HEADS, self.norm(layer.attention_norm))
            # Behind the last keys and values only the columns matter whose predictions are wanted.
            first = self.columns.columns - self.keep if number == last else 0
            queries = self.place(number, heads_NO, first)
            if number == last and self.keep == 0:
                return None
            if first:
                self.drop(first)
            self.add(number, OUT, self.attend(number, queries))
            inner_NF = self.silu(self.product(number, GATE_UP, self.norm(layer.feed_forward_norm)))
            self.add(number, DOWN, inner_NF)
        return self.norm(self.weights.last_norm)

    def drop(self, first: int) -> None:
        """Leave the first columns of each row out from now on."""
        keep = self.columns.columns - first
        self.gate = self.gate and self.gate.last(self.columns, keep)
        self.columns, self.hidden = self.columns.last(keep, self.hidden)

    @abstractmethod
    def norm(self, weight_E: torch.Tensor) -> torch.Tensor:
        """The RMS norm of the states [N, E], in the type of its weights."""

    @abstractmethod
    def product(self, layer: int, product: int, x_NI: torch.Tensor) -> torch.Tensor:
        """A product [N, O] of a layer, at masks with what the adapter adds."""

    @abstractmethod
    def place(self, layer: int, heads_NO: torch.Tensor, first: int) -> torch.Tensor:
        """Rotate and store a layer's keys and values; its rotated queries, without the first columns of each row."""

    @abstractmethod
    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        """What the queries find [N, H * D]."""

    @abstractmethod
    def silu(self, both_NO: torch.Tensor) -> torch.Tensor:
        """silu(gate) · up [N, F] of gates and ups side by side [N, 2F]."""

    @abstractmethod
    def add(self, layer: int, product: int, x_NI: torch.Tensor) -> None:
        """Add a product to the states, at once or before the next norm: the end of a residual branch."""


class Backend(ABC):
    """What computes passes with the weights of a network.

    An `invariant` one gives a column the same bits whatever else is in a pass: it wants extents that are multiples of a
    step, and a mask always. `wide` is the type of hidden states, keys, values and scores.
    """

    invariant = False

    def __init__(self, weights: Weights, wide: torch.dtype):
        self.weights, self.wide = weights, wide

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
    def adapted(self, adapter: Adapter, outputs: Sequence[Sequence[int]]) -> Any:
        """The same with an adapter; `outputs` are those of the linear layers of each product (`gated.PRODUCTS`)."""

    @abstractmethod
    def begin(self, hidden_NE: torch.Tensor, gate: Gate | None, window: Window, access: Access) -> Pass:
        """A pass that begins with these states."""
