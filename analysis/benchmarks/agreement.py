"""How far a decoder writes what one-token mode writes: text by text, and token by token.

A text is the same or not. A token agrees if one-token mode writes it behind the same prefix: no other token beats it
when the model reads prompt and text in one pass. Its gap is how far its log-probability is below the best one there.
In float32, and with invariant passes, an exact decoder's texts must be the same. Else two tokens may be nearly tied in
bfloat16, and then the shape of a pass decides which is written: so there no gap may be wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from analysis.decoding.timed import logits_of
from analysis.stats.intervals import Interval
from analysis.stats.resampling import ratio_of_sums
from mars.engine import Engine

WIDE = 0.05
"""Nats."""
Texts = Sequence[tuple[int, ...]]
"""Of each prompt, the token ids written, end of sequence included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement of n texts of a decoder at a batch size with the reference's.

    `identical` counts texts with the very tokens, `share` is that of the tokens that agree, with an interval over
    prompts, `wide` counts gaps above `WIDE`.
    """

    label: str
    lossless: bool
    batch_size: int
    n: int
    identical: int
    tokens: int
    share: Interval
    wide: int
    largest_gap: float

    def holds(self, *, same_bits: bool) -> bool:
        """Whether an exact decoder kept its promise; `same_bits`: a token has the same logits in every pass."""
        return not self.lossless or (self.identical == self.n if same_bits else self.wide == 0)


class Judge:
    """Compares texts with the `expected` ones of a reference; the engine reads them again."""

    def __init__(self, engine: Engine, prompts: Sequence[Sequence[int]], expected: Texts) -> None:
        self._engine = engine
        self._prompts = prompts
        self._expected = expected
        self._gaps: dict[tuple[int, tuple[int, ...]], tuple[float, ...]] = {}

    def agreement(self, label: str, batch_size: int, texts: Texts, *, lossless: bool) -> Agreement:
        """The agreement of these texts."""
        gaps = [self._of(number, tuple(text)) for number, text in enumerate(texts)]
        every = [gap for of_text in gaps for gap in of_text]
        counts = pd.DataFrame(
            {
                "task": "agree",
                "number": range(len(gaps)),
                "agreeing": [sum(gap == 0 for gap in of_text) for of_text in gaps],
                "tokens": [len(of_text) for of_text in gaps],
            }
        )
        return Agreement(
            label=label,
            lossless=lossless,
            batch_size=batch_size,
            n=len(texts),
            identical=sum(tuple(ours) == tuple(other) for ours, other in zip(texts, self._expected, strict=True)),
            tokens=len(every),
            share=ratio_of_sums(counts, "agreeing", "tokens"),
            wide=sum(gap > WIDE for gap in every),
            largest_gap=max(every),
        )

    def _of(self, number: int, text: tuple[int, ...]) -> tuple[float, ...]:
        if (number, text) not in self._gaps:
            self._gaps[number, text] = gaps_of(self._engine, self._prompts[number], text)
        return self._gaps[number, text]


def gaps_of(engine: Engine, prompt: Sequence[int], text: Sequence[int]) -> tuple[float, ...]:
    """For each token of the text, the log-probability of the best token minus its own, in one pass over all of it."""
    logits_WV = logits_of(engine, [*prompt, *text[:-1]], len(text))
    written_W1 = torch.tensor(list(text), device=engine.device)[:, None]
    # Both are normalised by the same sum, which the difference does not need.
    gaps_W: list[float] = (logits_WV.amax(1) - logits_WV.gather(1, written_W1)[:, 0]).tolist()
    return tuple(gaps_W)
