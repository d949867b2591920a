"""Products in 8 bits on a CPU: half as many bytes to read for a pass as in bfloat16, and another model.

Each output's weights share a scale, and so do the inputs of each row, which are rounded anew in each call. The
products are of whole numbers, whose sums are exact: a row gets the same bits whatever other rows share the call.

CPUs with AMX multiply by kernels of our own (mars/engine/tiles.py) and get the same bits. These products are for CPUs
with VNNI only, for weights that do not fill tiles, and the slow twin of the others.

Shapes: T rows, I and O input and output features.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from mars.engine.projection import Projection
from mars.provenance import instruction_limit

MOST = 127  # of a whole number of 8 bits, without -128
_SHIFT = 128

Rounded = tuple[torch.Tensor, torch.Tensor]
"""Whole numbers [T, I], int8, and the scale of each row [T], float32."""
Steps = tuple[Callable[[torch.Tensor], Rounded], Callable[[torch.Tensor, torch.Tensor, torch.dtype], torch.Tensor]]
"""The steps before and behind a product: `rounded` and `scaled`."""


def missing(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why there are no products in 8 bits for weights of this type; None where there are."""
    if device.type != "cpu":
        return f"int8 is for the CPU, got a model on {device.type}: use --dtype bfloat16"
    known = hasattr(torch.ops.onednn, "qlinear_pointwise") and hasattr(torch.ops.onednn, "qlinear_prepack")
    if not known or not torch.cpu._is_vnni_supported():  # other CPUs sum in 16 bits, which overflow
        return "int8 needs a CPU with AVX512-VNNI or AMX: use --dtype auto"
    return None if dtype == torch.bfloat16 else f"int8 starts from bfloat16 weights, got {dtype}"


def _takes_signed() -> bool:
    """Whether oneDNN's product of inputs with a sign is fast: without AMX it takes over a hundred times as long."""
    amx = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return amx is not None and amx() and "AMX" in (instruction_limit() or "AMX")


def rounded(x_TI: torch.Tensor) -> Rounded:
    """Rows as whole numbers of 8 bits, with their scales."""
    wide_TI = x_TI.float()
    scales_T = wide_TI.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / MOST
    return (wide_TI / scales_T[:, None]).round_().to(torch.int8), scales_T


def scaled(sums_TO: torch.Tensor, scales_T: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Sums times the scales of their rows, of this type."""
    return (sums_TO * scales_T[:, None]).to(dtype)


class Quantised(Projection):
    """y = x Wᵀ + b like `Linear`, with W and x rounded to 8 bits. `steps` are `rounded` and `scaled`, or compiled ones.

    It is always packed.
    """

    def __init__(
        self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None, steps: Steps = (rounded, scaled)
    ) -> None:
        super().__init__(weight_OI)
        self.bias = bias_O
        self._dtype = weight_OI.dtype
        self._rounded, self._scaled = steps
        whole_OI, self._scales_O = rounded(weight_OI)
        self._prepacked = torch.ops.onednn.qlinear_prepack(whole_OI, None)
        self._zeros_O = torch.zeros(len(whole_OI), dtype=torch.int32)
        self._shift = 0 if _takes_signed() else _SHIFT

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        found_TO = self._product(x_TI)
        return found_TO if self.bias is None else found_TO.add_(self.bias)

    def _product(self, x_TI: torch.Tensor) -> torch.Tensor:
        whole_TI, scales_T = self._rounded(x_TI)
        if self._shift:  # the sums are the same: oneDNN takes the shift away from them
            whole_TI = whole_TI.view(torch.uint8).bitwise_xor_(self._shift)
        sums_TO = torch.ops.onednn.qlinear_pointwise(
            *(whole_TI, 1.0, self._shift, self._prepacked, self._scales_O, self._zeros_O, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return self._scaled(sums_TO, scales_T, self._dtype)

    def unpacked(self) -> torch.Tensor:
        inputs = self._prepacked.shape[0]
        whole_IO = self._product(functional.one_hot(torch.arange(inputs)).to(self._dtype))
        return whole_IO.t().contiguous()
