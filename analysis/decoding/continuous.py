"""Decodes many prompts in few places: where the decoder can, a new row takes the place of one that has ended."""

from __future__ import annotations

from collections.abc import Iterator

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS
from mars.decoding.base import Prompts
from mars.decoding.pool import decode
from mars.engine import Engine
from mars.records import ForwardPass


def is_continuous(decoder: str) -> bool:
    """Whether waiting prompts take the places of rows that have ended."""
    return decoder in METHODS


def run(
    engine: Engine, decoder: str, settings: DecodingSettings, prompts: Prompts, places: int
) -> Iterator[ForwardPass]:
    """The records of decoding all prompts, row by row numbered from 0.

    At most `places` rows decode at once, except by a decoder that is not continuous: to that one, give batches.
    """
    if not is_continuous(decoder):
        return DECODERS[decoder](engine, prompts, settings)
    control = Control(settings.threshold, settings.score)
    return decode(engine, prompts, settings, control, METHODS[decoder](engine, settings), places)
