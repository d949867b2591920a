"""Pairs of models that answer every text at random, but always the same, and what decoding with them records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.records import ForwardPass
from mars.scripted import ReadingModel
from tests.readers import MASK, STOPS, VOCAB, Chance

READER = partial(Chance, stop_share=0.05, scores=(0.3, 0.6, 0.9))


@pytest.fixture(scope="session")
def reader_of() -> Callable[..., Chance]:
    """`reader_of(7, apart=0.3)`: the answers of seed 7, three in ten of them others."""
    return READER


@pytest.fixture(scope="session")
def model_of() -> Callable[..., ReadingModel]:
    """`model_of(reader)`: an engine with these answers, which has a mask token or, with `masks=False`, none."""

    def model_of(reader: Callable[[tuple[int, ...], int], tuple[int, float]], masks: bool = True) -> ReadingModel:
        mask = MASK if masks else None
        return ReadingModel(reader, vocab_size=VOCAB, mask_token_id=mask, stop_token_ids=frozenset(STOPS))

    return model_of


@pytest.fixture(scope="session")
def pair_of(model_of: Callable[..., ReadingModel]) -> Callable[..., Pair]:
    """`pair_of(7)`: a target and a draft that agree on seven in ten answers."""

    def pair_of(seed: int, apart: float = 0.3, draft_masks: bool = False) -> Pair:
        return Pair(model_of(READER(seed)), model_of(READER(seed, apart=apart), draft_masks))

    return pair_of


@pytest.fixture(scope="session")
def usual() -> DecodingSettings:
    """Up to three drafts a pass, up to twelve tokens."""
    return DecodingSettings(draft_tokens=3, block_size=4, threshold=0.6, max_new_tokens=12)


@pytest.fixture(scope="session")
def run(usual: DecodingSettings) -> Callable[..., list[ForwardPass]]:
    """`run(pair, prompts)`: the records of speculative decoding."""

    def run(pair: Pair, prompts: list[list[int]], options: DecodingSettings = usual) -> list[ForwardPass]:
        return list(DECODERS["speculative"](pair, prompts, options))

    return run


@pytest.fixture(scope="session")
def calls() -> Callable[[Pair], int]:
    """`calls(pair)`: how often either model was called."""
    return lambda pair: len(pair.target.calls) + len(pair.draft._inner.calls)
