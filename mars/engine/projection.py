"""The base of the engine's products: `linear.Linear`, `quantised.Quantised` and `tiles.Tiled`.

Shapes: T rows, I and O input and output features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch


class Projection(ABC):
    """The product with a linear layer's weights. One that is `packed` has a copy of them in an order of its own."""

    packed = True
    bias: torch.Tensor | None = None
    sums: Callable[[torch.Tensor], torch.Tensor] | None = None
    """The sums [T, O] in float32 that the product rounds, without its bias, where a kernel can give them."""

    def __init__(self, weight_OI: torch.Tensor) -> None:
        self._weight: torch.Tensor | None = weight_OI

    @abstractmethod
    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product [T, O]."""

    @abstractmethod
    def unpacked(self) -> torch.Tensor:
        """The packed weights as they are multiplied [O, I], in new memory; those in 8 bits are rounded."""

    def wide(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product in float32; where the device can, it is not rounded before."""
        return self(x_TI).float()

    def add_to(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        """Add the product to `sum_TO`, in place: the end of a residual branch. The sum may be of a wider type."""
        sum_TO.add_(self(x_TI))

    def shed(self) -> None:
        """Keep the packed weights only."""
        if self.packed:
            self._weight = None

    def plain_weight(self) -> torch.Tensor:
        """The weights [O, I] as they were given; once they were shed, those of `unpacked`."""
        return self.unpacked() if self._weight is None else self._weight
