"""Checks that exact decoding is exact: compares its texts with those of autoregressive decoding, and every token with
the model's predictions in one pass over the whole text.

In float32, and with invariant passes, the texts must be the same, token by token. Else two tokens may be nearly tied in
bfloat16, and then the shape of a pass decides which one is written. So there each token of a text is judged by its gap:
the distance of its log-probability below the best one when the model reads prompt and text at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from analysis.decoding.answers import texts
from analysis.decoding.decoder_specs import BASELINE
from analysis.decoding.timed import logits_of
from mars.config import DecodingSettings, LayoutName
from mars.decoders import EXACT
from mars.decoding.base import Prompts, check
from mars.engine import Engine

LARGEST_GAP = 0.05

Texts = Sequence[tuple[int, ...]]
"""Of each prompt, the token ids written, end of sequence included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement of n texts of one decoder, at one batch size, with the baseline at the first batch size.

    `identical` counts the texts with exactly the tokens of the baseline. `best` counts the written tokens that no other
    token beats in the pass over the whole text, `wide` those whose gap, in nats, is above `LARGEST_GAP`. `widest` is
    the place of the largest gap, as (problem, position in the text). `layout` is None for the baseline.
    """

    layout: LayoutName | None
    batch_size: int
    n: int
    identical: int
    tokens: int
    best: int
    wide: int
    largest_gap: float
    widest: tuple[int, int]

    def holds(self, dtype: str, *, same_bits: bool = False) -> bool:
        """Whether the promise for this dtype and these passes holds; there is none for the baseline's gaps."""
        if dtype == "float32" or same_bits:
            return self.identical == self.n
        return self.layout is None or self.wide == 0


def agreements(
    engine: Engine,
    prompts: Prompts,
    settings: DecodingSettings,
    layouts: Sequence[LayoutName],
    batch_sizes: Sequence[int],
    progress: Callable[[int], object] = lambda _: None,
) -> Iterator[Agreement]:
    """The baseline and each layout at each batch size in turn; `progress` is called after every run.

    Raises:
        ValueError: a prompt does not fit, or the model or the settings do not suit exact decoding.
    """
    check(engine, prompts, settings)
    judged: dict[tuple[int, tuple[int, ...]], tuple[float, ...]] = {}
    expected: Texts | None = None
    for batch_size in batch_sizes:
        for layout in (None, *layouts):
            changed = settings if layout is None else replace(settings, layout=layout)
            found = texts(engine, BASELINE if layout is None else EXACT, changed, prompts, batch_size)
            expected = found if expected is None else expected
            for number, text in enumerate(found):
                if (number, text) not in judged:
                    judged[number, text] = gaps(engine, prompts[number], text)
            measured = [judged[number, text] for number, text in enumerate(found)]
            yield _agreement(layout, batch_size, found, expected, measured)
            progress(1)


def gaps(engine: Engine, prompt: Sequence[int], text: Sequence[int]) -> tuple[float, ...]:
    """For each token of the text, the log-probability of the best token minus its own, in one pass over all of it."""
    logits_WV = logits_of(engine, [*prompt, *text[:-1]], len(text))
    written_W1 = torch.tensor(list(text), device=engine.device)[:, None]
    # Both are normalised by the same sum, which the difference does not need.
    gaps_W: list[float] = (logits_WV.amax(1) - logits_WV.gather(1, written_W1)[:, 0]).tolist()
    return tuple(gaps_W)


def _agreement(
    layout: LayoutName | None, batch_size: int, found: Texts, expected: Texts, measured: Sequence[Sequence[float]]
) -> Agreement:
    places = {(row, place): gap for row, gaps_W in enumerate(measured) for place, gap in enumerate(gaps_W)}
    widest = max(places, key=places.__getitem__)
    return Agreement(
        layout=layout,
        batch_size=batch_size,
        n=len(found),
        identical=sum(ours == theirs for ours, theirs in zip(found, expected, strict=True)),
        tokens=len(places),
        best=sum(gap == 0 for gap in places.values()),
        wide=sum(gap > LARGEST_GAP for gap in places.values()),
        largest_gap=places[widest],
        widest=widest,
    )
