"""Matrix products with a model's weights, the short way for every number of rows.

Shapes: T rows, I and O the input and output features, V vocabulary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch.nn import functional

# Measured on two Zen 4 cores: below this many multiplications oneDNN's call costs more than its kernel saves, and one
# row is a matrix-vector product, which MKL does best while the weights are in a cache. Above, oneDNN is 2 to 4 times as
# fast, for MKL knows no AVX-512 on AMD.
_WORTH_ONEDNN = 500_000
_LEAST_ROWS_UNPACKED = 8
_BEYOND_CACHES = 2**20
_COARSE = (torch.bfloat16, torch.float16)

# The linear layers of a decoder layer of `transformers`, and the part that each belongs to.
LINEARS = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "o_proj"), "self_attn"),
    **dict.fromkeys(("gate_proj", "up_proj", "down_proj"), "mlp"),
}
# Those that read the same and are computed in one product, in the order of their outputs.
PRODUCTS = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))


def linear_of(layer: Any, name: str) -> Any:
    """The linear layer of that name in a decoder layer."""
    return getattr(getattr(layer, LINEARS[name]), name)


class Projection(ABC):
    """The product y = x Wᵀ + b with a linear layer's weights. One that is `packed` has them in an order of its own."""

    packed = False
    bias: torch.Tensor | None = None

    def __init__(self, weight_OI: torch.Tensor) -> None:
        self._weight: torch.Tensor | None = weight_OI

    @abstractmethod
    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product [T, O]."""

    @abstractmethod
    def unpacked(self) -> torch.Tensor:
        """The packed weights [O, I], in new memory."""

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


class Linear(Projection):
    """The product by PyTorch or oneDNN.

    `pack` keeps a second copy of the weights in the layout of oneDNN (on the CPU only); without it oneDNN reorders them
    in each call, which pays from a few rows on. A packed copy does not follow later changes of `weight`.
    """

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None, *, pack: bool = False):
        super().__init__(weight_OI)
        self.bias = bias_O
        self._onednn_weight = weight_OI
        self._onednn_rows: float = math.inf
        self.packed = pack and _has_onednn(weight_OI)
        if self.packed:
            self._onednn_weight = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
            narrow = weight_OI.dtype == torch.float32 and weight_OI.numel() < _BEYOND_CACHES
            self._onednn_rows = max(2, _WORTH_ONEDNN / weight_OI.numel()) if narrow else 1
        elif _has_onednn(weight_OI) and weight_OI.dtype == torch.float32:  # other types go there by themselves
            self._onednn_rows = _LEAST_ROWS_UNPACKED

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        if x_TI.shape[0] < self._onednn_rows:
            return functional.linear(x_TI, self.plain_weight(), self.bias)
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x_TI, self._onednn_weight, self.bias, "none", [], "")
        return product

    def add_to(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        if sum_TO.dtype != x_TI.dtype or x_TI.shape[0] >= self._onednn_rows:
            super().add_to(sum_TO, x_TI)
            return
        sum_TO.addmm_(x_TI, self.plain_weight().t())
        if self.bias is not None:
            sum_TO.add_(self.bias)

    def wide(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product in float32; where the device can, it is not rounded before."""
        if x_TI.dtype not in _COARSE or x_TI.device.type != "cuda":
            return self(x_TI).float()
        found_TO = torch.mm(x_TI, self.plain_weight().t(), out_dtype=torch.float32)
        return found_TO if self.bias is None else found_TO.add_(self.bias)

    def shed(self) -> None:
        super().shed()
        if self.packed:
            self._onednn_rows = 1

    def unpacked(self) -> torch.Tensor:
        return self._onednn_weight.to_dense()


def vocabulary_of(weight_OI: torch.Tensor, bias_O: torch.Tensor | None, *, pack: bool) -> Linear:
    """The vocabulary projection, whose logits (`wide`) are to be float32.

    Logits of bfloat16 stand up to 1/8 apart: rounded so coarsely, tokens that are nearly equally probable are tied. On
    a CPU, whose kernels round what they write, such weights are therefore copied in float32.
    """
    if weight_OI.dtype in _COARSE and weight_OI.device.type == "cpu":
        weight_OI, bias_O = weight_OI.float(), None if bias_O is None else bias_O.float()
    return Linear(weight_OI, bias_O, pack=pack)


def _has_onednn(weight: torch.Tensor) -> bool:
    """Whether oneDNN can be called on these weights."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    # Operators that torch.compile emits: there, but not promised.
    if not all(hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")):
        return False
    # In bfloat16 oneDNN refuses to work on a CPU without AVX-512.
    known = weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 or bool(known)
