"""Attention masks, as boolean tensors in which True means "query may read key"."""

from __future__ import annotations

from functools import lru_cache

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
    position, noisy = _streams(length, block_size, noisy_start, device)
    query, key = position[:, None], position[None, :]
    query_noisy, key_noisy = noisy[:, None], noisy[None, :]
    same_stream = query_noisy == key_noisy
    causal = same_stream & (key <= query)
    same_block = key // block_size == query // block_size
    earlier_block = key // block_size < query // block_size
    return (causal & (~query_noisy | same_block)) | (query_noisy & ~key_noisy & earlier_block)


def block_diffusion_mask(
    length: int, block_size: int, noisy_start: int = 0, device: torch.device | None = None
) -> Tensor:
    """Two-stream mask of block diffusion (BD3-LM, arXiv 2503.09573) over [clean 0..L-1 | noisy noisy_start..L-1].

    clean→clean: whole earlier blocks and the own one. noisy→noisy: the own block. noisy→clean: whole earlier blocks.
    clean→noisy: never. All of a block is seen, in both directions. Shapes and errors are those of `training_mask`.
    """
    position, noisy = _streams(length, block_size, noisy_start, device)
    block = position // block_size
    query_noisy, key_noisy = noisy[:, None], noisy[None, :]
    own_block = (query_noisy == key_noisy) & (block[:, None] == block)
    return own_block | (~key_noisy & (block < block[:, None]))


def _streams(length: int, block_size: int, noisy_start: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
    """Position of each column of [clean | noisy from noisy_start] and whether it is noisy."""
    if block_size < 1:
        raise ValueError(f"block_size must be >= 1, got {block_size}")
    if length < 1 or length % block_size or noisy_start % block_size or not 0 <= noisy_start < length:
        raise ValueError(
            f"length and noisy_start must be multiples of block_size {block_size} with 0 <= noisy_start < length, "
            f"got {length} and {noisy_start}"
        )
    position = torch.cat([torch.arange(length, device=device), torch.arange(noisy_start, length, device=device)])
    return position, torch.arange(len(position), device=device) >= length


@lru_cache(maxsize=512)
def verification_tree(
    pending: int, masks: tuple[int, ...], device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Columns of a pass that verifies K drafts and goes on with `masks[j]` masks behind the first j of them, j = 0 … K.

    Section 4.6: first the chain, `pending` real tokens, the last of which is the root, then the drafts; then the groups
    of masks. The chain is causal and sees no mask; a group sees the real tokens, the first j drafts, and itself
    causally.

    Returns: depths [Q] behind the root (0: the root itself) and who sees whom, bool [Q, Q] (row: query), Q = pending +
    K + the sum of `masks`. They are shared: do not write to them.
    """
    drafts = len(masks) - 1
    chain = torch.arange(1 - pending, drafts + 1)
    prefixes = torch.arange(drafts + 1).repeat_interleave(torch.tensor(masks))
    within = torch.cat([torch.arange(1, count + 1) for count in masks])
    depths_Q = torch.cat([chain, prefixes + within])
    # A column of the chain has group -1; a mask's group is the number of drafts that its prefix holds.
    group_Q = torch.cat([torch.full_like(chain, -1), prefixes])
    query_group, key_group = group_Q[:, None], group_Q[None]
    query_depth, key_depth = depths_Q[:, None], depths_Q[None]
    on_chain = key_group < 0
    sees_chain = on_chain & torch.where(query_group < 0, key_depth <= query_depth, key_depth <= query_group)
    sees_own = ~on_chain & (key_group == query_group) & (key_depth <= query_depth)
    return depths_Q.to(device), (sees_chain | sees_own).to(device)
