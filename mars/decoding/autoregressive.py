"""Autoregressive decoding: one token a pass, the baseline of everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mars.config import DecodingSettings
from mars.decoding.method import Method
from mars.engine import Engine


@dataclass(frozen=True, kw_only=True)
class Autoregressive(Method):
    """The last token is read, the next one is written; any checkpoint."""

    capturable: ClassVar[bool] = True

    @property
    def lookahead(self) -> int:
        return 1


def method_of(engine: Engine, settings: DecodingSettings) -> Autoregressive:
    """The method that these settings ask for."""
    return Autoregressive(score=settings.score, alternatives=settings.alternatives)
