"""Decoding settings: frozen, checked at the door, keyword-only, so that a typo is an error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

ScoreName = Literal["probability", "margin", "entropy"]

DEFAULT_THRESHOLD = 0.95
MAX_BLOCK_SIZE = 64
MAX_ALTERNATIVES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """How a decoder runs.

    `threshold` is the one at the start (None: one-token mode); a `Control` can change it while text is written.
    `extra_proposal` also offers the prediction of the last mask, the B+1-th of the window. `alternatives` is how many
    top-k candidates each proposal records. `use_cache=False` recomputes the whole prefix in every pass: the slow twin.
    """

    block_size: int = 8
    threshold: float | None = DEFAULT_THRESHOLD
    score: ScoreName = "probability"
    max_new_tokens: int = 192
    extra_proposal: bool = False
    alternatives: int = 0
    use_cache: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.block_size <= MAX_BLOCK_SIZE:
            raise ValueError(f"block_size must be between 1 and {MAX_BLOCK_SIZE}, got {self.block_size}")
        if self.score not in get_args(ScoreName):
            raise ValueError(f"score must be one of {', '.join(get_args(ScoreName))}, got {self.score!r}")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be >= 1, got {self.max_new_tokens}")
        if not 0 <= self.alternatives <= MAX_ALTERNATIVES:
            raise ValueError(f"alternatives must be between 0 and {MAX_ALTERNATIVES}, got {self.alternatives}")
        check_threshold(self.threshold, self.score)


def check_threshold(threshold: float | None, score: ScoreName = "probability") -> None:
    """Raise ValueError unless `threshold` is None (one-token mode) or in the range of `score`."""
    if threshold is None:
        return
    upper = math.inf if score == "entropy" else 1.0
    if not math.isfinite(threshold) or not 0.0 <= threshold <= upper:
        allowed = ">= 0 (nats)" if score == "entropy" else "between 0 and 1"
        raise ValueError(f"threshold must be {allowed} for {score}, or none for one-token mode, got {threshold}")
