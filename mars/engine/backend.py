"""What a network runs on: its weights, and a backend that walks through its layers with them.

Shapes: N columns that are computed, E hidden size, I and O input and output features of a product, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from mars.engine.linear import Projection
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
