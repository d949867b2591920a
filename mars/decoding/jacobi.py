"""Jacobi decoding (arXiv 2604.07023, appendix C): guess the next tokens, and let each pass put its predictions there.

A pass reads the last real token (the root) and K guesses; those that equal the prediction before them are right. The
others give way to the predictions, and behind these stand guesses that depend on the seed and the position alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import ClassVar

import torch

from mars.config import DecodingSettings
from mars.decoding.method import AcceptResult, Batch, Method, Row
from mars.engine import Engine
from mars.records import Phase, Reads


@dataclass(frozen=True, kw_only=True)
class Jacobi(Method):
    """`guesses` is K; `vocab_size` and the ids `never` guessed, ascending, say what a fresh guess may be."""

    phase: ClassVar[Phase] = "verify"
    capturable: ClassVar[bool] = True

    guesses: int
    vocab_size: int
    never: tuple[int, ...]

    @property
    def lookahead(self) -> int:
        return self.guesses + 1

    def begin(self, row: Row, tokens_K: torch.Tensor) -> None:
        # Predictions take the place of these from the left, so that what is left of them is always at the end.
        first = row.length + 1
        count = min(row.room + self.guesses, len(tokens_K) - first)
        tokens_K[first : first + count] = torch.tensor(self.fresh(row.settings.seed, count), device=tokens_K.device)

    def fresh(self, seed: int, count: int) -> list[int]:
        """The guesses for the first `count` positions of the response."""
        draws = random.Random(seed)
        return [self._allowed(draws.randrange(self.vocab_size - len(self.never))) for _ in range(count)]

    def _allowed(self, token: int) -> int:
        """Token number `token` of those that may be guessed."""
        for forbidden in self.never:
            token += token >= forbidden
        return token

    def shape(self, batch: Batch) -> tuple[int, int]:
        return min(self.guesses, batch.room - 1), 0

    def reads(self, row: Row, drafts: int) -> Iterable[Reads]:
        """First the predictions that the pass before did not accept, then fresh guesses."""
        yield from super().reads(row, drafts)
        yield from repeat("random", drafts - row.drafted)

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        result = super().judge(batch, logits_RWV)
        return replace(result, drafts_R=logits_RWV.shape[1] - result.accepted_R)


def method_of(engine: Engine, settings: DecodingSettings) -> Jacobi:
    """The method that these settings ask for; K is `draft_tokens`."""
    # The mask of an adapter is no token of the vocabulary: nothing is to be left out for it.
    mask = engine.mask_token_id
    masks = () if mask is None or mask >= engine.vocab_size else (mask,)
    return Jacobi(
        guesses=settings.draft_tokens,
        vocab_size=engine.vocab_size,
        never=tuple(sorted({*engine.stop_token_ids, *masks})),
        score=settings.score,
        alternatives=settings.alternatives,
    )
