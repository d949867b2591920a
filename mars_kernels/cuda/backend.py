"""The steps of a pass by Triton's kernels; hidden states are float32 between them, as on a CPU."""

from __future__ import annotations

from functools import cached_property

import torch

from mars.engine.attention import attention
from mars.engine.backend import Backend, TorchBackend, TorchSteps
from mars.engine.linear import Linear, Projection
from mars.engine.window import Columns
from mars_kernels.cuda.kernels import Kernels, usable


class CudaSteps(TorchSteps):
    """A pass in which what ends a residual branch is added by the next norm."""

    _added: torch.Tensor | None = None

    @cached_property
    def _kernels(self) -> Kernels:
        weights = self.weights
        return Kernels(weights.heads, weights.shared, weights.size, weights.epsilon)

    def walk(self) -> tuple[torch.Tensor, Columns] | None:
        with torch.cuda.device_of(self.hidden):
            return super().walk()

    def norm(self, weight_E: torch.Tensor) -> torch.Tensor:
        self.hidden, normed_NE = self._kernels.norm(self.hidden, self._added, weight_E)
        self._added = None
        return normed_NE

    def place(self, layer: int, heads_NO: torch.Tensor, first: int) -> torch.Tensor:
        return self._kernels.place(heads_NO, self.positions_N, self.access, layer, first)

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        found_RHQD = attention(queries, *self.access.read(layer), self.mask)
        return self._kernels.unfold(found_RHQD, self.columns, self.weights.last_norm.dtype)

    def silu(self, both_NO: torch.Tensor) -> torch.Tensor:
        return self._kernels.silu(both_NO)

    def add(self, product: Projection, x_NI: torch.Tensor) -> None:
        self._added = product.wide(x_NI) if isinstance(product, Linear) else product(x_NI).float()


class CudaBackend(TorchBackend):
    """Passes as `CudaSteps`."""

    steps = CudaSteps


def backend_for(device: torch.device, dtype: torch.dtype) -> type[Backend] | None:
    """The backend; None where Triton does not compile for this device or type."""
    return CudaBackend if usable(device, dtype) else None
