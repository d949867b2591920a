"""Matrix products with a model's weights, the short way for every number of rows.

Shapes: T rows, I and O the input and output features.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

# Measured on two Zen 4 cores: below this many multiplications oneDNN's call costs more than its kernel saves, and one
# row is a matrix-vector product, which MKL does best. Above, oneDNN is 2 to 4 times as fast, for MKL knows no AVX-512
# on AMD.
_WORTH_ONEDNN = 500_000
_LEAST_ROWS_UNPACKED = 8


class Linear:
    """y = x Wᵀ + b for x [T, I], W [O, I] and b [O] or None.

    `pack` keeps a second copy of the weights in the layout of oneDNN (float32 on the CPU only); without it oneDNN
    reorders them in each call, which pays from a few rows on. A packed copy does not follow later changes of `weight`.
    """

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None, *, pack: bool = False):
        self._weight = weight_OI
        self._transposed = weight_OI.t()
        self._bias = bias_O
        self._onednn_weight = weight_OI
        self._onednn_rows: float = math.inf
        if _has_onednn(weight_OI):
            self._onednn_rows = _LEAST_ROWS_UNPACKED
            if pack:
                self._onednn_weight = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
                self._onednn_rows = max(2, _WORTH_ONEDNN / weight_OI.numel())

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """The product [T, O]."""
        if x_TI.shape[0] >= self._onednn_rows:
            return self._onednn(x_TI)
        return functional.linear(x_TI, self._weight, self._bias)

    def add_to(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        """Add the product to `sum_TO`, in place: the end of a residual branch in one operation."""
        if x_TI.shape[0] >= self._onednn_rows:
            sum_TO.add_(self._onednn(x_TI))
        else:
            sum_TO.addmm_(x_TI, self._transposed)
            if self._bias is not None:
                sum_TO.add_(self._bias)

    def _onednn(self, x_TI: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x_TI, self._onednn_weight, self._bias, "none", [], ""
        )
        return product


class Head:
    """The vocabulary projection, x [T, I] to float32 logits [T, O], whatever the weights' dtype.

    Logits of bfloat16 stand up to 1/16 apart: rounded so coarsely, tokens that are nearly equally probable change
    places with the number of columns in a pass. The product is therefore summed to float32: with a float32 copy of the
    weights where they are few (`copy`), else where the device can do it.
    """

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None, *, copy: bool):
        coarse = weight_OI.dtype in (torch.bfloat16, torch.float16)
        self._half = coarse and not (copy and weight_OI.device.type == "cpu")
        self._wide = self._half and weight_OI.device.type == "cuda"
        self._weight_IO = weight_OI.t()
        self._bias = bias_O.float() if coarse and bias_O is not None else bias_O
        if not self._half:
            self._weight = weight_OI.float() if coarse else weight_OI
            self._product = Linear(self._weight, self._bias, pack=copy)

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """Logits [T, O], float32."""
        if not self._half:
            return self._product(x_TI.to(self._weight.dtype)).float()
        if self._wide:
            logits_TO = torch.mm(x_TI, self._weight_IO, out_dtype=torch.float32)
        else:
            logits_TO = torch.mm(x_TI, self._weight_IO).float()
        return logits_TO if self._bias is None else logits_TO.add_(self._bias)


def _has_onednn(weight: torch.Tensor) -> bool:
    """Whether oneDNN can be called on these weights; other types go there by themselves, or cannot."""
    suits = weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    # Operators that torch.compile emits: there, but not promised.
    names = ("_linear_pointwise", "_reorder_linear_weight")
    return suits and all(hasattr(torch.ops.mkldnn, name) for name in names)
