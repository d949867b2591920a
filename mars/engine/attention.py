"""Attention over cached keys and values: the mask of a pass, and queries that share a key-value head.

Shapes: R rows, Q queries, K slots 1 to extent - 1, H key-value heads, G query heads for each of them, D head size,
B = R * H, M = G * Q or the fewest queries of a steady product, if that is more.
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

# Steady attention sums over so many keys at a time: MKL's products cut longer sums at places that depend on the length.
_KEY_BLOCK = 192
KEY_STEP = 64
_TRIED_QUERIES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 24, 27, 33, 48, 75, 96)
_MOST_LEAST = 16
_MOST_QUERIES = max(_TRIED_QUERIES)  # of one product: no wider one was compared
_least_queries: dict[tuple[object, ...], int | None] = {}


def attention_mask(window: Window, numbers_S: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores, [R, 1, Q, K]: 0 where `window.visible` says so for a column that is no padding.

    `numbers_S` counts the slots from 0, at least to the window's extent.
    """
    if window.sees_RQQ is None:
        return _hide(numbers_S[1 : window.extent] > window.slots_RQ[..., None], dtype)[:, None]
    first_R1 = window.slots_RQ.masked_fill(window.slots_RQ == 0, window.extent).amin(1, keepdim=True)
    hidden_RQS = (numbers_S[: window.extent] >= first_R1)[:, None].repeat(1, window.columns, 1)
    slots_RQQ = window.slots_RQ[:, None].expand(-1, window.columns, -1)
    # What is said of padding columns lands on slot 0, which is left out.
    hidden_RQS.scatter_(2, slots_RQQ, ~window.sees_RQQ.expand(window.rows, -1, -1))
    return _hide(hidden_RQS[..., 1:], dtype)[:, None]


def _hide(hidden_RQK: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Contiguous, because GPU kernels want the rows of a mask aligned and would copy it in every layer."""
    return hidden_RQK.to(dtype, memory_format=torch.contiguous_format).mul_(HIDDEN)


def stepped(extent: int) -> int:
    """At least `extent`, 1 more than a multiple of KEY_STEP: slot 0 is not attended."""
    return 1 + -(-(extent - 1) // KEY_STEP) * KEY_STEP


def share_mask(mask: torch.Tensor | None, groups: int) -> torch.Tensor | None:
    """The mask [R, 1, G * Q, K] for `attend`, of [R, 1, Q, K]; None stays None."""
    if mask is None or groups == 1:
        return mask
    return mask.expand(-1, groups, -1, -1).flatten(1, 2)[:, None]


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
        found = _attention(queries_RQHD.transpose(1, 2), keys_RHKD, values_RHKD, shared_mask)
        return found.transpose(1, 2).reshape(rows * columns, heads * size)
    groups = heads // shared
    folded = queries_RQHD.view(rows, columns, shared, groups, size).permute(0, 2, 3, 1, 4).flatten(2, 3)
    found = _attention(folded, keys_RHKD, values_RHKD, shared_mask)
    return found.view(rows, shared, groups, columns, size).permute(0, 3, 1, 2, 4).reshape(rows * columns, -1)


def _attention(
    queries_RHQD: torch.Tensor, keys_RHKD: torch.Tensor, values_RHKD: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """By whichever way is faster, [R, H, Q, D]."""
    rows, heads, columns, _ = queries_RHQD.shape
    scores = rows * heads * columns * keys_RHKD.shape[2]
    exact = queries_RHQD.dtype in _WIDE and queries_RHQD.is_cpu
    if exact and rows > 1 and rows * columns >= _LEAST_QUERIES and scores <= _MOST_SCORES:
        return multiplied(queries_RHQD, keys_RHKD, values_RHKD, mask)
    return functional.scaled_dot_product_attention(queries_RHQD, keys_RHKD, values_RHKD, mask)


def multiplied(
    queries_RHQD: torch.Tensor, keys_RHKD: torch.Tensor, values_RHKD: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """What `scaled_dot_product_attention` computes, [R, H, Q, D], by two batched products around a softmax."""
    rows, heads, columns, size = queries_RHQD.shape
    queries_BQD, keys_BKD, values_BKD = (part.flatten(0, 1) for part in (queries_RHQD, keys_RHKD, values_RHKD))
    scores_BQK = torch.baddbmm(
        queries_BQD.new_empty(1), queries_BQD, keys_BKD.transpose(1, 2), beta=0, alpha=size**-0.5
    )
    if mask is not None:
        scores_BQK.view(rows, heads, columns, -1).add_(mask)
    return torch.bmm(scores_BQK.softmax(-1), values_BKD).view(rows, heads, columns, size)


class SteadyAttention:
    """Attention whose result for a query is the same, bit for bit, whatever else the pass holds.

    Hidden keys weigh exactly 0, so that a longer extent changes nothing as long as it is a multiple of KEY_STEP and
    every sum over keys is taken in the same order. Products of too few queries take another kernel, and are padded:
    `least_queries` finds by comparing bits from how many on they do not.
    """

    def __init__(self, groups: int, size: int, dtype: torch.dtype):
        self._groups = groups
        key = (size, dtype, torch.get_num_threads())
        if key not in _least_queries:
            _least_queries[key] = least_queries(size, dtype)
        found = _least_queries[key]
        self._least = 1 if found is None else found
        self._attend = _summed if found is None else _in_blocks

    def share(self, mask_R1QK: torch.Tensor, shared: int) -> torch.Tensor:
        """The mask [B, M, K] that a call takes, once for all layers."""
        rows, _, columns, keys = mask_R1QK.shape
        mask_RHGQK = mask_R1QK[:, :, None].expand(rows, shared, self._groups, columns, keys)
        return self._padded(mask_RHGQK.reshape(rows * shared, self._groups * columns, keys))

    def __call__(
        self,
        queries_RQHD: torch.Tensor,
        keys_BKD: torch.Tensor,
        values_BKD: torch.Tensor,
        mask_BMK: torch.Tensor | None,
    ) -> torch.Tensor:
        """What `attend` computes, [R * Q, G * H * D]."""
        if mask_BMK is None:
            raise ValueError("steady attention needs a mask, also one that hides nothing")
        rows, columns, heads, size = queries_RQHD.shape
        shared, groups, used = heads // self._groups, self._groups, self._groups * columns
        folded = queries_RQHD.view(rows, columns, shared, groups, size).permute(0, 2, 3, 1, 4)
        queries_BMD = folded.reshape(rows * shared, used, size)
        found_BMD = self._in_pieces(queries_BMD, keys_BKD, values_BKD, mask_BMK, used)
        found = found_BMD.view(rows, shared, groups, columns, size).permute(0, 3, 1, 2, 4)
        return found.reshape(rows * columns, heads * size)

    def _in_pieces(
        self,
        queries_BMD: torch.Tensor,
        keys_BKD: torch.Tensor,
        values_BKD: torch.Tensor,
        mask_BMK: torch.Tensor,
        used: int,
    ) -> torch.Tensor:
        """[B, used, D] for the queries that are no padding; no more at a time than were compared."""
        if used < self._least:
            return self._attend(self._padded(queries_BMD), keys_BKD, values_BKD, mask_BMK)[:, :used]
        if used <= _MOST_QUERIES:
            return self._attend(queries_BMD, keys_BKD, values_BKD, mask_BMK)
        pieces = zip(queries_BMD.split(_MOST_QUERIES, 1), mask_BMK.split(_MOST_QUERIES, 1), strict=True)
        found = [
            self._attend(self._padded(piece), keys_BKD, values_BKD, self._padded(mask))[:, : piece.shape[1]]
            for piece, mask in pieces
        ]
        return torch.cat(found, 1)

    def _padded(self, x_BMn: torch.Tensor) -> torch.Tensor:
        missing = self._least - x_BMn.shape[1]
        return x_BMn if missing <= 0 else functional.pad(x_BMn, (0, 0, 0, missing))


def _in_blocks(
    queries_BMD: torch.Tensor, keys_BKD: torch.Tensor, values_BKD: torch.Tensor, mask_BMK: torch.Tensor
) -> torch.Tensor:
    """[B, M, D] by batched products; the sums over keys are cut at fixed slots."""
    scale = queries_BMD.shape[2] ** -0.5
    scores_BMK = torch.baddbmm(mask_BMK, queries_BMD, keys_BKD.transpose(1, 2), alpha=scale)
    weights_BMK = scores_BMK.softmax(-1)
    keys = keys_BKD.shape[1]
    if keys <= _KEY_BLOCK:
        return torch.bmm(weights_BMK, values_BKD)
    found_BMD = torch.bmm(weights_BMK[..., :_KEY_BLOCK], values_BKD[:, :_KEY_BLOCK])
    for start in range(_KEY_BLOCK, keys, _KEY_BLOCK):
        block = slice(start, start + _KEY_BLOCK)
        found_BMD.baddbmm_(weights_BMK[..., block], values_BKD[:, block])
    return found_BMD


def _summed(
    queries_BMD: torch.Tensor, keys_BKD: torch.Tensor, values_BKD: torch.Tensor, mask_BMK: torch.Tensor
) -> torch.Tensor:
    """The slow twin of `_in_blocks`, query by query and without products of matrices, where those are not steady."""
    scale = queries_BMD.shape[2] ** -0.5
    found = []
    for query_BD, mask_BK in zip(queries_BMD.unbind(1), mask_BMK.unbind(1), strict=True):
        scores_BK = (keys_BKD * query_BD[:, None]).sum(-1) * scale + mask_BK
        found.append((values_BKD * scores_BK.softmax(-1)[..., None]).cumsum(1)[:, -1])
    return torch.stack(found, 1)


def least_queries(size: int, dtype: torch.dtype) -> int | None:
    """From how many queries on `_in_blocks` gives each the same bits at all lengths tried; None if from none on.

    Compared are the first and the last of up to 96 queries, in one row and in two, behind 300 and 700 keys.
    """
    generator = torch.Generator().manual_seed(0)
    most, heads = max(_TRIED_QUERIES), 2
    queries_BMD = torch.randn(2 * heads, most, size, generator=generator, dtype=dtype)
    keys, values = torch.randn(2, 2 * heads, 1 + 1088, size, generator=generator, dtype=dtype)[:, :, 1:]
    mask_BMK = torch.zeros(2, 2 * heads, most, 1088, dtype=dtype)
    mask_BMK[0, ..., 300:] = mask_BMK[1, ..., 700:] = HIDDEN

    def found(seen: int, part: slice, batch: int, extent: int) -> torch.Tensor:
        mask = mask_BMK[seen, :batch, part, :extent]
        return _in_blocks(queries_BMD[:batch, part], keys[:batch, :extent], values[:batch, :extent], mask)

    least = 1
    with torch.inference_mode():
        for seen, cases in enumerate((((2, 320), (4, 384), (2, 1024)), ((2, 704), (4, 768), (2, 1088)))):
            reference_BMD = found(seen, slice(most), *cases[0])
            for count in reversed(_TRIED_QUERIES):
                same = (
                    torch.equal(found(seen, part, *case)[:heads], reference_BMD[:heads, part])
                    for part in (slice(count), slice(most - count, most))
                    for case in cases
                )
                if count < least or not all(same):
                    least = max(least, count + 1)
                    break
    return least if least <= _MOST_LEAST else None
