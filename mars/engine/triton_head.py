"""The conditional head on a GPU, where the most probable token is always chosen: two kernels that Triton compiles.

Mask by mask in PyTorch (mars/engine/conditional.py, the slow twin) it is some 17 kernels for each, and each takes 2 µs,
whatever it computes. Two things make it one loop in one kernel. What the head adds for the token before a mask depends
on that token alone, so that all V of them are computed beforehand. And of the vocabulary's rows times c, with

    row · c = row · n + (row · down) · silu(up · [rms(e); rms(n)])

row · down depends on the row alone; row · n is a first kernel, for it waits for no token. It computes in float32, of
weights and tables as they are.

Shapes: R rows, M masks of one group, C candidates, E hidden size, F hidden size of the head, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

# A program works on blocks of so many candidates times hidden features, 32 for each of its threads. It asks for all
# that it reads for a mask before it waits for any, as far as that fits into its registers (_BYTES).
_BLOCK = 8192
_WARPS = 8
_BYTES = 2**17
_LOWEST = tl.constexpr(-3e38)
_TOKENS = 2**14  # whose entries of a table are computed at once

# What differs from pass to pass is no constant, and kernels are not specialised on it; nor on the alignment of tensors
# of which they touch single numbers.


@triton.jit
def _own(  # type: ignore[no-untyped-def]
    vocabulary,
    bias,
    states,
    likely,
    ids,
    own,
    COUNT: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    BIASED: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    inside = places < SIZE
    token = tl.load(ids + number)
    weights = tl.load(vocabulary + token * SIZE + places, mask=inside, other=0.0).to(tl.float32)
    state = tl.load(states + number // COUNT * SIZE + places, mask=inside, other=0.0).to(tl.float32)
    found = tl.sum(weights * state, axis=0)
    if BIASED:
        found += tl.load(bias + token).to(tl.float32)
    # What the model never predicts is no candidate.
    tl.store(own + number, tl.where(tl.load(likely + number) == float("-inf"), float("-inf"), found))


@triton.jit(do_not_specialize=["before", "logits", "masks", "row_step", "mask_step", "token_step"])
def _rerank(  # type: ignore[no-untyped-def]
    own,
    likely,
    ids,
    inner,
    tokens,
    folded,
    before,
    logits,
    chosen,
    masks,
    row_step,
    mask_step,
    token_step,
    COUNT: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_F: tl.constexpr,
    AT_ONCE: tl.constexpr,
    TOKENS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    numbers = tl.arange(0, BLOCK_C)
    real = numbers < COUNT
    last = tl.load(before + row).to(tl.int64)
    target = logits + row * row_step
    place = row * masks
    end = place + masks
    while place < end:  # the interpreter takes no tensor for a range
        source = place * COUNT + numbers
        ids_C = tl.load(ids + source, mask=real, other=0)
        likely_C = tl.load(likely + source, mask=real, other=float("-inf"))
        found_C = tl.load(own + source, mask=real, other=float("-inf"))
        sums_CF = tl.zeros((BLOCK_C, BLOCK_F), tl.float32)
        for start in tl.static_range(0, SIZE, BLOCK_F * AT_ONCE):
            parts, states, before_it = tl.tuple(()), tl.tuple(()), tl.tuple(())
            for block in tl.static_range(AT_ONCE):
                places = start + block * BLOCK_F + tl.arange(0, BLOCK_F)
                inside = places < SIZE
                part = folded + ids_C[:, None] * SIZE + places[None, :]
                parts += (tl.load(part, mask=real[:, None] & inside[None, :], other=0.0),)
                states += (tl.load(inner + place * SIZE + places, mask=inside, other=0.0),)
                before_it += (tl.load(tokens + last * SIZE + places, mask=inside, other=0.0),)
            for block in tl.static_range(AT_ONCE):
                x = states[block].to(tl.float32) + before_it[block].to(tl.float32)
                sums_CF += parts[block].to(tl.float32) * (x / (1.0 + tl.exp(-x)))[None, :]
        found_C += tl.sum(sums_CF, axis=1)

        # The first of equals, as PyTorch chooses: the least of their numbers, which carry the tokens with them.
        best = tl.max(found_C, axis=0)
        numbered_C = numbers.to(tl.int64) * TOKENS + ids_C
        last = tl.min(tl.where(found_C == best, numbered_C, BLOCK_C * TOKENS), axis=0) % TOKENS
        tl.store(chosen + place, last)

        # Together they keep their mass. The largest adds 1 to its sum, unless all are -inf: so are the scores then.
        best = tl.maximum(best, _LOWEST)
        most = tl.maximum(tl.max(likely_C, axis=0), _LOWEST)
        total = best + tl.log(tl.maximum(tl.sum(tl.exp(found_C - best), axis=0), 1.0))
        kept = most + tl.log(tl.maximum(tl.sum(tl.exp(likely_C - most), axis=0), 1.0))
        scores_C = found_C - total + kept
        tl.store(target + ids_C * token_step, scores_C, mask=real)
        target += mask_step
        place += 1


class Tables:
    """What a head computes of each token of the embeddings and of the vocabulary, and the kernels that read it.

    `up_token` is the head's product with normed embeddings [..., E] -> [..., F], rms included, `down_EF` its last
    weights, whose type the tables have.
    """

    def __init__(
        self,
        up_token: Callable[[torch.Tensor], torch.Tensor],
        down_EF: torch.Tensor,
        embedding_VE: torch.Tensor,
        vocabulary_VE: torch.Tensor,
        bias_V: torch.Tensor | None,
    ):
        self._vocabulary, self._bias = vocabulary_VE.contiguous(), bias_V
        self._tokens = _table(up_token, embedding_VE, down_EF)
        self._folded = _table(lambda rows_VE: rows_VE.to(down_EF.dtype) @ down_EF, vocabulary_VE, down_EF)

    def rerank_(
        self,
        logits_RMV: torch.Tensor,
        logits_RMC: torch.Tensor,
        ids_RMC: torch.Tensor,
        states_RME: torch.Tensor,
        inner_RMF: torch.Tensor,
        before_R: torch.Tensor,
    ) -> torch.Tensor:
        """Choose the tokens [R, M] and make the logits the conditional ones, in place, as the head's `rerank_`.

        Candidates are the most probable first; `inner_RMF` is what `up` makes of the normed states.
        """
        rows, masks, count = ids_RMC.shape
        likely_RMC, ids_RMC, inner_RMF = logits_RMC.contiguous(), ids_RMC.contiguous(), inner_RMF.contiguous()
        own_RMC, chosen_RM = torch.empty_like(likely_RMC), ids_RMC.new_empty(rows, masks)
        size, width = self._vocabulary.shape[1], self._folded.shape[1]
        _own[(rows * masks * count,)](
            self._vocabulary,
            own_RMC if self._bias is None else self._bias,
            states_RME.contiguous(),
            likely_RMC,
            ids_RMC,
            own_RMC,
            COUNT=count,
            SIZE=size,
            BLOCK=triton.next_power_of_2(size),
            BIASED=self._bias is not None,
        )
        block_C = triton.next_power_of_2(count)
        block_F = min(triton.next_power_of_2(width), max(_BLOCK // block_C, 1))
        fitting = max(_BYTES // (block_C * block_F * self._folded.element_size()), 1)
        _rerank[(rows,)](
            own_RMC,
            likely_RMC,
            ids_RMC,
            inner_RMF,
            self._tokens,
            self._folded,
            before_R.contiguous(),
            logits_RMV,
            chosen_RM,
            masks,
            *logits_RMV.stride(),
            COUNT=count,
            SIZE=width,
            BLOCK_C=block_C,
            BLOCK_F=block_F,
            AT_ONCE=min(fitting, triton.cdiv(width, block_F)),
            TOKENS=2**32,
            num_warps=_WARPS,
        )
        return chosen_RM


@torch.no_grad()
def _table(
    entries: Callable[[torch.Tensor], torch.Tensor], rows_VE: torch.Tensor, like_EF: torch.Tensor
) -> torch.Tensor:
    """The entries [V, F] of all rows, piece by piece: what is computed on the way to them is wider."""
    table_VF = like_EF.new_empty(len(rows_VE), like_EF.shape[1])
    for part_VF, part_VE in zip(table_VF.split(_TOKENS), rows_VE.split(_TOKENS), strict=True):
        part_VF.copy_(entries(part_VE))
    return table_VF
