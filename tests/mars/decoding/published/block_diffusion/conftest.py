"""A model that answers every text at random, but always the same, asked by block diffusion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import Engine
from mars.records import ForwardPass
from mars.scripted import Diffusing, ReadingModel
from tests.readers import MASK, STOPS, VOCAB, Chance


@pytest.fixture(scope="session")
def engine_of() -> Callable[..., Diffusing]:
    """`engine_of(reader, 4)`: an engine with these answers for blocks of 4; `static` is that its shapes are."""

    def engine_of(reader: Chance, size: int, static: bool = False) -> Diffusing:
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
