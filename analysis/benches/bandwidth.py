"""What a pass must read, and how fast the device reads: the share of the memory bandwidth that a decoder reaches.

    share = (W + rows × positions × P) / seconds of the pass / bytes per second of a large copy

W are the bytes of the weights that a pass reads: all but an input embedding of its own, of which it looks up a few
rows. P are the bytes of keys and values of one position: 2 × layers × key-value heads × head size × bytes a number.
`positions` are those up to the furthest that any row has in use. A copy of n bytes moves 2n: it reads and writes them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import torch
from transformers import PreTrainedModel

COPY_BYTES = 2**31
COPIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes that a pass of one model reads; `copy_bytes_per_second` is that of its device, None if not measured."""

    weight_bytes: int
    position_bytes: int
    copy_bytes_per_second: float | None = None

    @classmethod
    def of(cls, model: PreTrainedModel) -> Traffic:
        """The traffic of a model with grouped-query attention; the copy is measured on CUDA only."""
        config = model.config
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        embedding = model.get_input_embeddings().weight
        if embedding is not model.get_output_embeddings().weight:
            weights -= embedding.numel() * embedding.element_size()
        return cls(
            weight_bytes=weights,
            position_bytes=2 * config.num_hidden_layers * config.num_key_value_heads * head * embedding.element_size(),
            copy_bytes_per_second=copy_bytes_per_second(model.device) if model.device.type == "cuda" else None,
        )

    def share(self, passes: int, read_positions: int, seconds: float) -> float | None:
        """Share of the copy bandwidth that `passes` reach in `seconds`; None if it was not measured.

        `read_positions` are rows times positions, summed over the passes.
        """
        if self.copy_bytes_per_second is None or seconds <= 0:
            return None
        moved = passes * self.weight_bytes + read_positions * self.position_bytes
        return moved / seconds / self.copy_bytes_per_second


def copy_bytes_per_second(device: torch.device, size: int = COPY_BYTES) -> float:
    """Bytes moved per second, read and written, by copies of `size` bytes on a CUDA device: the median of some."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(COPIES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 2 * size / median(seconds[3:])
