"""The share of the memory bandwidth that a decoder reaches: the bytes a pass must read, and the speed of the device.

    share = (W + rows × positions × P) / seconds of the pass / bytes per second

W is the number of bytes of the weights that a pass reads: all weights but a separate input embedding, of which it looks
up a few rows. P is the number of bytes of keys and values of one position: 2 × layers × key-value heads × head size ×
bytes a number. `positions` are those up to the furthest that any row has in use. Bytes per second are measured on CUDA
by a large copy, which reads and writes (a copy of n bytes moves 2n), on a CPU by reading a large tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from transformers import PreTrainedModel

from analysis.decoding.timed import Stopwatch
from mars.engine.linear import Linear

COPY_BYTES = 2**31
COPIES = 20
READ_BYTES = 2**29
PRODUCT = (512, 2048)
"""Rows, and inputs and outputs, of the product that says how fast the device computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes that a pass of one model reads; `bytes_per_second` is the rate of its device, None if not measured."""

    weight_bytes: int
    position_bytes: int
    bytes_per_second: float | None = None

    @classmethod
    def of(cls, model: PreTrainedModel, *, measured: bool = True, quantised: bool = False) -> Traffic:
        """The traffic of a model with grouped-query attention; with `measured` its device is timed now.

        `quantised`: its weights are read in 8 bits.
        """
        rate = {"cuda": copy_bytes_per_second, "cpu": read_bytes_per_second}.get(model.device.type)
        config = model.config
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        weights = sum(parameter.numel() for parameter in model.parameters())
        embedding = model.get_input_embeddings().weight
        if embedding is not model.get_output_embeddings().weight:
            weights -= embedding.numel()
        return cls(
            weight_bytes=weights * (1 if quantised else embedding.element_size()),
            position_bytes=2 * config.num_hidden_layers * config.num_key_value_heads * head * embedding.element_size(),
            bytes_per_second=rate(model.device) if measured and rate is not None else None,
        )

    def share(self, passes: int, read_positions: int, seconds: float) -> float | None:
        """Share of the bandwidth that `passes` reach in `seconds`; None if it was not measured.

        `read_positions` are rows times positions, summed over the passes.
        """
        if self.bytes_per_second is None or seconds <= 0:
            return None
        moved = passes * self.weight_bytes + read_positions * self.position_bytes
        return moved / seconds / self.bytes_per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The least time of a pass of C columns.

        max(weight_bytes / bytes_per_second, C × operations_per_column / operations_per_second)

    The rates are those of this device on large tensors: reading one, and multiplying two of the model's type.
    """

    weight_bytes: int
    operations_per_column: int
    bytes_per_second: float
    operations_per_second: float

    @classmethod
    def of(cls, model: PreTrainedModel) -> Roofline:
        """Measure it now, on the model's device; two operations for each weight and column."""
        weight_bytes, size = Traffic.of(model, measured=False).weight_bytes, model.dtype.itemsize
        return cls(
            weight_bytes=weight_bytes,
            operations_per_column=2 * weight_bytes // size,
            bytes_per_second=read_bytes_per_second(model.device),
            operations_per_second=operations_per_second(model.device, model.dtype),
        )


def read_bytes_per_second(device: torch.device) -> float:
    """Bytes a second while summing a large float32 tensor: the median of several calls."""
    source = torch.ones(READ_BYTES // 4, device=device)
    return READ_BYTES / _median_seconds(source.sum, device)


def operations_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """Additions and multiplications a second in one large product, of `Linear`."""
    rows, size = PRODUCT
    product = Linear(torch.ones(size, size, dtype=dtype, device=device), pack=True)
    x_TI = torch.ones(rows, size, dtype=dtype, device=device)
    return 2 * rows * size**2 / _median_seconds(lambda: product(x_TI), device)


def _median_seconds(work: Callable[[], object], device: torch.device) -> float:
    """The median seconds of several synchronised calls, after three that do not count."""
    seconds, watch = [], Stopwatch.of(device)
    with torch.inference_mode():
        for _ in range(COPIES):
            start = watch.settled()
            work()
            seconds.append(watch.settled() - start)
    return median(seconds[3:])


def copy_bytes_per_second(device: torch.device) -> float:
    """Bytes moved per second, read and written, by large copies on a CUDA device: the median of several."""
    source = torch.zeros(COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / _median_seconds(lambda: target.copy_(source), device)
