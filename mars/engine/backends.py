"""Which backend a network runs on: the kernels of `mars_kernels` where that package is there and fits, else PyTorch's.

Nothing else imports `mars_kernels`; the library works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from transformers import PreTrainedConfig

from mars.engine.backend import Backend, TorchBackend
from mars.engine.memory import Memory

WARM_UPS = 3
"""Passes of a shape before its CUDA graph is captured."""


def kernels(module: str) -> Any | None:
    """A module of `mars_kernels`; None without that package, or what the module is made with (numba, Triton)."""
    try:
        return import_module(f"mars_kernels.{module}")
    except ImportError:
        return None


def choose(device: torch.device, dtype: torch.dtype, *, invariant: bool) -> type[Backend]:
    """The fastest backend for weights of this type; an `invariant` one must be possible (`can_be_invariant`)."""
    module = kernels("cpu.backend" if invariant else "cuda.backend") if invariant or device.type == "cuda" else None
    chosen: type[Backend] | None = module and module.backend_for(device, dtype)
    return chosen or TorchBackend


def runner_of(*, capture: bool) -> Callable[[Memory], Any] | None:
    """What runs passes of static shapes on a memory, with `capture` by CUDA graphs; None if nothing does."""
    graphs = kernels("cuda.graphs")
    return graphs and partial(graphs.Runner, capture=capture)


def can_be_invariant(device: torch.device, dtype: torch.dtype, config: PreTrainedConfig) -> bool:
    """Whether passes of such a plain Qwen2 or Llama can be invariant."""
    if device.type != "cpu" or dtype != torch.bfloat16 or not all(map(find_spec, ("mars_kernels", "numba"))):
        return False
    possible: bool = import_module("mars_kernels.cpu.tiles").fits(config)
    return possible
