"""A model that answers every text at random, but always the same, asked by block diffusion."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import Engine
from mars.records import ForwardPass
from mars.scripted import Diffusing, ReadingModel

VOCAB, MASK, STOPS = 12, 11, (2, 3)


@dataclass(frozen=True)
class Reader:
    """A random but fixed answer to every text."""

    seed: int
    stop_share: float = 0.0

    def __call__(self, tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        chance = random.Random(f"{self.seed} {tokens} {masks}")
        token = chance.choice(STOPS) if chance.random() < self.stop_share else chance.randrange(4, MASK)
        return token, chance.uniform(0.2, 1.0)


@pytest.fixture(scope="session")
def reader_of() -> type[Reader]:
    """`reader_of(7, stop_share=0.1)`: the answers of seed 7, one in ten of them a stop token."""
    return Reader


@pytest.fixture(scope="session")
def engine_of() -> Callable[..., Diffusing]:
    """`engine_of(reader, 4)`: an engine with these answers for blocks of 4; `static` is that its shapes are."""

    def engine_of(reader: Reader, size: int, static: bool = False) -> Diffusing:
        stops = frozenset(STOPS)
        model = ReadingModel(reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=stops, static_shapes=static)
        return Diffusing(model, size)

    return engine_of


@pytest.fixture(scope="session")
def run() -> Callable[..., list[ForwardPass]]:
    """`run(engine, prompts, options)`: the records of block diffusion."""

    def run(engine: Engine, prompts: list[list[int]], options: DecodingSettings) -> list[ForwardPass]:
        return list(DECODERS["block_diffusion"](engine, prompts, options))

    return run
