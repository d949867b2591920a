"""Attention over cached keys and values: the mask of a pass, and queries that share a key-value head.

Shapes: R rows, Q queries, K slots 1 to extent - 1, H key-value heads, G query heads for each of them, D head size,
B = R * H.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from mars.engine.window import Window

# Added to a hidden score. Finite, so that a padding column, which sees nothing, gets the mean of all values and no NaN:
# slot 0 need not be attended at all.
HIDDEN = -1e30

# On the CPU two batched products take less time than PyTorch's kernel (0.6 of it for 16 rows of one or ten columns, as
# measured on two Zen 4 cores): from a few queries in several rows on, while the scores stay in the caches. In coarser
# types they would round the scores.
_WIDE = (torch.float32, torch.float64)
_LEAST_QUERIES = 4
_MOST_SCORES = 2**20

# Extents of compiled passes are multiples of so many slots.
KEY_STEP = 64


def attention_mask(window: Window, numbers_S: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The mask added to the scores, [R, 1, Q, K]: 0 where a column sees a slot; what padding sees does not matter.

    `numbers_S` counts the slots from 0, at least to the window's extent.
    """
    if window.sees_RQQ is None:
        return _hide(numbers_S[1 : window.extent] > window.slots_RQ[..., None], dtype)[:, None]
    first_R1 = window.slots_RQ.masked_fill(window.slots_RQ == 0, window.extent).amin(1, keepdim=True)
    hidden_RQS = (numbers_S[: window.extent] >= first_R1)[:, None].repeat(1, window.columns, 1)
    slots_RQQ = window.slots_RQ[:, None].expand(-1, window.columns, -1)
    # The entries of padding columns land on slot 0, which is left out.
    hidden_RQS.scatter_(2, slots_RQQ, ~window.sees_RQQ.expand(window.rows, -1, -1))
    return _hide(hidden_RQS[..., 1:], dtype)[:, None]


def _hide(hidden_RQK: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Contiguous, because GPU kernels want the rows of a mask aligned and would copy it in every layer."""
    return hidden_RQK.to(dtype, memory_format=torch.contiguous_format).mul_(HIDDEN)


def stepped(extent: int) -> int:
    """At least `extent`, 1 more than a multiple of KEY_STEP: slot 0 is not attended."""
    return 1 + -(-(extent - 1) // KEY_STEP) * KEY_STEP


def share_mask(mask: torch.Tensor | None, groups: int) -> torch.Tensor | None:
    """The mask [R, 1, G * Q, K] for `attend`, of [R, 1, Q, K]; None stays None.

    With one query `flatten` would leave a view of a part of the mask. A kernel for GPUs takes such a view to be
    aligned, whatever its address (CUDA error: misaligned address).
    """
    if mask is None or groups == 1:
        return mask
    return mask.expand(-1, groups, -1, -1).flatten(1, 2)[:, None].contiguous()


def attend(
    queries_RQHD: torch.Tensor, keys_RHKD: torch.Tensor, values_RHKD: torch.Tensor, shared_mask: torch.Tensor | None
) -> torch.Tensor:
    """Attention of queries [R, Q, G * H, D], whose heads g + G * h share key-value head h; returns [R * Q, G * H * D].

    The G heads of a group stand one behind the other on the query axis, so that keys and values are not repeated.
    `shared_mask` comes from `share_mask`; None hides nothing.
    """
    rows, columns, heads, size = queries_RQHD.shape
    shared = keys_RHKD.shape[1]
    if shared == heads:
        attended = attention(queries_RQHD.transpose(1, 2), keys_RHKD, values_RHKD, shared_mask)
        return attended.transpose(1, 2).reshape(rows * columns, heads * size)
    groups = heads // shared
    folded = queries_RQHD.view(rows, columns, shared, groups, size).permute(0, 2, 3, 1, 4).flatten(2, 3)
    attended = attention(folded, keys_RHKD, values_RHKD, shared_mask)
    return attended.view(rows, shared, groups, columns, size).permute(0, 3, 1, 2, 4).reshape(rows * columns, -1)


def attention(
    queries_RHQD: torch.Tensor, keys_RHKD: torch.Tensor, values_RHKD: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Attention [R, H, Q, D] of queries that have a key-value head each, by whichever way is faster."""
    rows, heads, columns, _ = queries_RHQD.shape
    scores = rows * heads * columns * keys_RHKD.shape[2]
    exact = queries_RHQD.dtype in _WIDE and queries_RHQD.is_cpu
    if exact and rows > 1 and rows * columns >= _LEAST_QUERIES and scores <= _MOST_SCORES:
        return multiplied(queries_RHQD, keys_RHKD, values_RHKD, mask)
    return functional.scaled_dot_product_attention(queries_RHQD, keys_RHKD, values_RHKD, mask)


def multiplied(
    queries_RHQD: torch.Tensor, keys_RHKD: torch.Tensor, values_RHKD: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """The result of `scaled_dot_product_attention`, [R, H, Q, D], by two batched products around a softmax."""
    rows, heads, columns, size = queries_RHQD.shape
    queries_BQD, keys_BKD, values_BKD = (part.flatten(0, 1) for part in (queries_RHQD, keys_RHKD, values_RHKD))
    scores_BQK = torch.baddbmm(
        queries_BQD.new_empty(1), queries_BQD, keys_BKD.transpose(1, 2), beta=0, alpha=size**-0.5
    )
    if mask is not None:
        scores_BQK.view(rows, heads, columns, -1).add_(mask)
    return torch.bmm(scores_BQK.softmax(-1), values_BKD).view(rows, heads, columns, size)
