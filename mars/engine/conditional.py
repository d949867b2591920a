"""The conditional head of an adapter: it tells a mask which token was chosen before it.

A mask alone knows a marginal. With n its hidden state (normed: what the vocabulary is multiplied with) and e the
embedding of the token before it,

    c = n + down · silu(up · [rms(e); rms(n)])          rms(x) = x / sqrt(mean(x²) + 1e-6)

and the vocabulary's rows of the mask's C most probable tokens, times c, rank these anew. Together they keep the
probability that they had: what they share out is the mass of the candidates, so that the new score of a token is still
a probability. Tokens outside keep theirs.

Shapes: R rows, W columns, M masks of one group, C candidates, E hidden size, F hidden size of the head, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from mars.engine.adapter import HeadWeights
from mars.engine.backends import compiled_sums
from mars.engine.linear import Linear, most_probable

EPSILON = 1e-6
_VECTOR = 64

Choose = Callable[[int, torch.Tensor], torch.Tensor]
"""(number of the mask, its conditional logits [R, V]) -> the chosen tokens [R]."""


class ConditionalHead:
    """A head on the embeddings [V, E] and the vocabulary projection [V, E] of its base; it re-ranks C candidates.

    `steady` gives a mask the same bits whatever other rows share the pass: its products are then by our own kernels,
    and those with the candidates are summed one by one.
    """

    def __init__(
        self,
        weights: HeadWeights,
        embedding_VE: torch.Tensor,
        vocabulary_VE: torch.Tensor,
        bias_V: torch.Tensor | None,
        candidates: int,
        *,
        steady: bool = False,
    ):
        size = embedding_VE.shape[1]
        # Inner sizes that fill whole vectors: PyTorch computes what is left over in another way.
        missing = -len(weights.up) % _VECTOR
        up, down = functional.pad(weights.up, (0, 0, 0, missing)), functional.pad(weights.down, (0, missing))
        parts = [part.contiguous() for part in (up[:, :size], up[:, size:], down)]
        self._dtype, self._steady = weights.up.dtype, steady
        product_of = compiled_sums if steady else Linear
        self._up_token, self._up_state, self._down = (product_of(part) for part in parts)
        self._embedding = embedding_VE
        self._vocabulary = vocabulary_VE
        self._bias = bias_V
        self._candidates = min(candidates, len(vocabulary_VE))
        self._shape = (size,)

    @torch.inference_mode()
    def rerank_(
        self,
        logits_RMV: torch.Tensor,
        states_RME: torch.Tensor,
        before_R: torch.Tensor,
        choose: Choose | None = None,
    ) -> torch.Tensor:
        """Choose the tokens [R, M] of a group from left to right, each given the one before it, `before_R` at first.

        The float32 logits of the masks become the conditional ones, in place; their softmax is the distribution that
        the module's text describes. The most probable token is chosen unless `choose` says otherwise.
        """
        logits_RMC, ids_RMC = most_probable(logits_RMV, min(self._candidates, logits_RMV.shape[2]))
        # One product each for all masks: what does not depend on the tokens chosen.
        normed_RME = torch.rms_norm(states_RME.to(self._dtype), self._shape, None, EPSILON)
        inner_RMF = self._up_state(normed_RME.flatten(0, 1)).unflatten(0, normed_RME.shape[:2])
        mass_RM1 = logits_RMC.logsumexp(-1, keepdim=True)
        rows_RMCE = functional.embedding(ids_RMC, self._vocabulary).float()
        own_RMC = self._scored(rows_RMCE, states_RME.float())
        if self._bias is not None:
            own_RMC += self._bias[ids_RMC]
        own_RMC = own_RMC.masked_fill_(logits_RMC == -math.inf, -math.inf)
        chosen = []
        for mask in range(logits_RMV.shape[1]):
            token_RF = self._of_tokens(functional.embedding(before_R, self._embedding))
            inner_RF = functional.silu(inner_RMF[:, mask] + token_RF)
            change_RE = self._down(inner_RF.to(self._dtype)).float()
            found_RC = own_RMC[:, mask] + self._scored(rows_RMCE[:, mask], change_RE)
            scores_RC = found_RC.log_softmax(-1).add_(mass_RM1[:, mask])
            logits_RMV[:, mask].scatter_(1, ids_RMC[:, mask], scores_RC)
            if choose is None:
                # Of C numbers with the mass of the C largest, the largest is no smaller than any token outside.
                before_R = ids_RMC[:, mask].gather(1, scores_RC.argmax(-1, keepdim=True))[:, 0]
            else:
                before_R = choose(mask, logits_RMV[:, mask])
            chosen.append(before_R)
        return torch.stack(chosen, 1)

    def _of_tokens(self, token_RE: torch.Tensor) -> torch.Tensor:
        """What the first product [R, F] has of tokens' embeddings."""
        return self._up_token(torch.rms_norm(token_RE.to(self._dtype), self._shape, None, EPSILON))

    def _scored(self, rows_CE: torch.Tensor, state_E: torch.Tensor) -> torch.Tensor:
        """The products [..., C] of candidates' rows [..., C, E] with a state [..., E]."""
        if self._steady:
            return (rows_CE * state_E[..., None, :]).sum(-1)
        return torch.matmul(rows_CE, state_E[..., None])[..., 0]


@dataclass(frozen=True, slots=True)
class States:
    """The input of the conditional head, for the columns that a pass predicts from: normed hidden states [R, W, E]."""

    hidden_RWE: torch.Tensor
    head: ConditionalHead

    def at(self, rows: torch.Tensor | slice, columns: int) -> States:
        """Those of these rows, in their last columns."""
        return States(self.hidden_RWE[rows, self.hidden_RWE.shape[1] - columns :], self.head)
