"""The backends of a network, each beside the others: nothing but this module imports from them."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from transformers import PreTrainedConfig

from mars.engine.backend import Backend
from mars.engine.backends.torch_backend import TorchBackend


def choose(device: torch.device, dtype: torch.dtype, *, invariant: bool) -> type[Backend]:
    """The fastest backend for weights of this type; an `invariant` one must be possible (`not_invariant`)."""
    if invariant:
        from mars.engine.backends.cpu.backend import CpuBackend  # numba takes half a second to import

        return CpuBackend
    if device.type == "cuda":
        try:
            from mars.engine.backends.cuda.backend import CudaBackend
            from mars.engine.backends.cuda.kernels import usable
        except ImportError:  # no Triton, or a build that does not fit this system
            return TorchBackend
        if usable(device, dtype):
            return CudaBackend
    return TorchBackend


def not_invariant(device: torch.device, dtype: torch.dtype, config: PreTrainedConfig) -> str | None:
    """Why passes of such a plain Qwen2 or Llama cannot be invariant; None if they can."""
    if device.type != "cpu":
        return f"invariant passes are for the CPU, got a model on {device.type}: use --no-invariant"
    if dtype != torch.bfloat16:
        return f"invariant passes are for bfloat16, got {str(dtype).removeprefix('torch.')}: use --no-invariant"
    if not _has("numba"):
        return "invariant passes are compiled by numba, which is not installed: pip install numba"
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inputs = config.hidden_size, config.intermediate_size, size * config.num_attention_heads
    if any(number % 32 for number in inputs) or size * config.num_key_value_heads % 16:
        return "invariant passes are for matrices that fill tiles of 16 x 32 weights, and this model's do not"
    from mars.engine.backends.cpu.tiles import kind_of_products

    if kind_of_products() is None:
        return "invariant passes need an x86 CPU with AVX2 and a torch with libgomp (Linux): use --no-invariant"
    return None


def compiled_sums(weight_OI: torch.Tensor) -> Any:
    """The invariant product with bfloat16 weights that fill tiles, in float32, on a CPU that has kernels for it."""
    from mars.engine.backends.cpu.tiles import Tiled

    return Tiled(weight_OI).sums


@cache
def _has(package: str) -> bool:
    return find_spec(package) is not None
