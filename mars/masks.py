"""Attention masks, as boolean tensors in which True means "query may read key"."""

from __future__ import annotations

import torch
from torch import Tensor


def training_mask(length: int, block_size: int, noisy_start: int = 0, device: torch.device | None = None) -> Tensor:
    """Two-stream mask of section 3.2 over [clean 0..L-1 | noisy noisy_start..L-1].

    clean→clean: j <= i. noisy→noisy: same block and j <= i. noisy→clean: whole earlier blocks. clean→noisy: never.
    `noisy_start` drops the noisy blocks that lie in every prompt of the batch: nothing reads them and no loss is taken
    there.

    Returns: bool [2L - noisy_start, 2L - noisy_start].

    Raises:
        ValueError: a block size under 1, a length that is no multiple of it, or a start that is none.
    """
    if block_size < 1:
        raise ValueError(f"block_size must be >= 1, got {block_size}")
    if length < 1 or length % block_size or noisy_start % block_size or not 0 <= noisy_start < length:
        raise ValueError(
            f"length and noisy_start must be multiples of block_size {block_size} with 0 <= noisy_start < length, "
            f"got {length} and {noisy_start}"
        )
    position = torch.cat([torch.arange(length, device=device), torch.arange(noisy_start, length, device=device)])
    noisy = torch.arange(len(position), device=device) >= length
    query, key = position[:, None], position[None, :]
    query_noisy, key_noisy = noisy[:, None], noisy[None, :]
    same_stream = query_noisy == key_noisy
    causal = same_stream & (key <= query)
    same_block = key // block_size == query // block_size
    earlier_block = key // block_size < query // block_size
    return (causal & (~query_noisy | same_block)) | (query_noisy & ~key_noisy & earlier_block)
