"""A model whose texts depend on the prompt, so that rows may come anyhow, and what it writes for a prompt alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.records import ForwardPass
from mars.scripted import ScriptedModel, ScriptedRows

STOP = 2


def script(first: int, position: int, masks: int) -> tuple[int, float]:
    """Texts of 8 to 17 tokens that differ by prompt, less sure of what reads more masks."""
    if position == 7 + first % 10:
        return STOP, 0.9
    return 3 + (first * 7 + position * position) % 27, (0.95, 0.8, 0.7, 0.5, 0.4, 0.4, 0.4)[min(masks, 6)]


class Prompted(ScriptedModel):
    """Its script is told the first token of the prompt in place of the row's number.

    Its passes take no time, so that the records of a stream that shared them equal those of one that did not.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(script, seconds_per_pass=0.0, **options)

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> ScriptedRows:
        return PromptedRows(self, rows, capacity)


class PromptedRows(ScriptedRows):
    def _predict(self, row: object, visible: list[bool], position: int) -> list[float]:
        row.number = row.tokens[1][0]
        return super()._predict(row, visible, position)


@pytest.fixture(scope="session")
def prompted() -> type[ScriptedModel]:
    """`prompted(static_shapes=True)`: a model that answers prompts; see `Prompted`."""
    return Prompted


@pytest.fixture
def model() -> ScriptedModel:
    """A model that answers prompts."""
    return Prompted()


@pytest.fixture(scope="session")
def usual() -> DecodingSettings:
    """Sampled texts of up to 20 tokens, up to four a pass."""
    return DecodingSettings(block_size=4, threshold=0.6, max_new_tokens=20, temperature=1.0, layout="quadratic")


@pytest.fixture(scope="session")
def alone() -> Callable[..., list[ForwardPass]]:
    """`alone(decoder, prompt, settings)`: the records of a run of its own."""

    def alone(decoder: str, prompt: list[int], settings: DecodingSettings, static: bool = False) -> list[ForwardPass]:
        return list(DECODERS[decoder](Prompted(static_shapes=static), [prompt], settings))

    return alone
