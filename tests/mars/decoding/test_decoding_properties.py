"""Exact decoding in layouts that follow each other at random; tests/mars/test_reference.py has all else."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.policy import Policy
from mars.metrics import output_ids
from mars.scripted import ReadingModel
from tests.in_turn import in_turn
from tests.readers import MASK, STOPS, VOCAB, Answers


@pytest.mark.slow
def test_auto_changes_no_text_whatever_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass goes on from what the one before has left."""
    layouts: Counter[str] = Counter()

    @settings(max_examples=40, deadline=None)
    @given(
        reader=st.builds(Answers, seed=st.integers(0, 10**6), foresight=st.sampled_from((4, 7)), stops=st.just(0)),
        prompts=st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=5), min_size=1, max_size=5),
        block_size=st.sampled_from((9, 8, 5, 4, 3)),
        temperature=st.sampled_from((0.0, 0.7)),
        static=st.booleans(),
        seed=st.integers(0, 10**6),
    )
    def every(
        reader: Answers, prompts: list[list[int]], block_size: int, temperature: float, static: bool, seed: int
    ) -> None:
        chance = random.Random(seed)

        def choose() -> str:
            layout = chance.choice(("none", "linear", "linear", "quadratic"))
            layouts[layout] += 1
            return layout

        monkeypatch.setattr(Policy, "plan", in_turn(choose))
        drawn = {"temperature": temperature, "seed": seed}
        options = DecodingSettings(max_new_tokens=40, block_size=block_size, layout="auto", **drawn)
        model = ReadingModel(
            reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=frozenset(STOPS), static_shapes=static
        )
        records = list(DECODERS["self_speculative"](model, prompts, options))
        plain = list(DECODERS["autoregressive"](model, prompts, options))
        for row in range(len(prompts)):
            assert output_ids(records, row) == output_ids(plain, row)

    every()
    assert min(layouts.values()) > 100, layouts
