"""Decoders that verify keep one-token mode's distribution: counted over many seeds, against exact probabilities."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from itertools import product

import pytest
import torch

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.metrics import Tally, output_ids
from mars.scripted import ScriptedModel

VOCAB, MASK, LENGTH, RUNS = 4, 3, 3, 600
CRITICAL = 54.1  # chi-square, 26 degrees of freedom: exceeded by chance once in a thousand
SETTINGS = DecodingSettings(max_new_tokens=LENGTH, temperature=0.8, block_size=3, draft_tokens=2, threshold=0.0)


class Toy(ScriptedModel):
    """Three tokens, whose probabilities depend on the two tokens before and on the masks between."""

    def __init__(self, seed: int, **options: object):
        super().__init__((), vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=frozenset(), **options)
        self._seed = seed

    def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
        return logits(self._seed, tokens[: len(tokens) - masks_read][-2:], masks_read)


@lru_cache
def logits(seed: int, last: tuple[int, ...], masks: int) -> list[float]:
    chance = random.Random(f"{seed} {last} {masks}")
    return [chance.gauss(0, 1) for _ in range(MASK)] + [-torch.inf]


def probabilities(prompt: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Of every text that one-token mode can write."""
    found = {}
    for text in product(range(MASK), repeat=LENGTH):
        probability = 1.0
        for place, token in enumerate(text):
            last = (*prompt, *text[:place])[-2:]
            scaled = torch.tensor(logits(0, last, 0), dtype=torch.float64) / SETTINGS.temperature
            probability *= float(scaled.softmax(-1)[token])
        found[text] = probability
    return found


@pytest.mark.parametrize(
    ("decoder", "layout"),
    [
        ("autoregressive", "auto"),
        ("self_speculative", "linear"),
        ("self_speculative", "quadratic"),
        ("speculative", "auto"),
    ],
)
def test_texts_are_as_frequent_as_they_are_probable(decoder: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The toy is seldom as sure as the linear layout asks for.
    monkeypatch.setattr(import_module("mars.decoding.self_speculative"), "SURE", 0.4)
    engine = Pair(Toy(0), Toy(1)) if decoder == "speculative" else Toy(0)
    counts: dict[tuple[int, ...], int] = {}
    passes = []
    for seed in range(RUNS):
        records = list(DECODERS[decoder](engine, [[0, 1]], replace(SETTINGS, seed=seed, layout=layout)))
        text = tuple(output_ids(records))
        counts[text] = counts.get(text, 0) + 1
        passes.append(Tally.of(records).passes)
    expected = probabilities((0, 1))
    chi_square = sum((counts.get(text, 0) - RUNS * p) ** 2 / (RUNS * p) for text, p in expected.items())
    assert chi_square < CRITICAL
    assert (min(passes) < LENGTH) == (decoder != "autoregressive"), "drafts are accepted, or this tests nothing"
