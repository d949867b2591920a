"""Decoding settings: frozen, checked at the door, keyword-only, so that a typo is an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

ScoreName = Literal["probability", "margin", "entropy"]
LayoutName = Literal["auto", "linear", "quadratic"]

DEFAULT_THRESHOLD = 0.95
MAX_BLOCK_SIZE = 64
MAX_ALTERNATIVES = 20
MAX_CACHE_BLOCK_SIZE = 1024
MAX_DRAFT_TOKENS = 64
MAX_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """How a decoder runs.

    `threshold` is the one at the start (None: one-token mode); a `Control` can change it while text is written.
    `extra_proposal` also offers the prediction of the last mask, the B+1-th of the window. `alternatives` is how many
    top-k candidates each proposal records. `use_cache=False` recomputes the whole prefix in every pass: the slow twin.

    `temperature` 0 takes the most probable token; above 0 tokens are drawn, from the smallest set whose mass reaches
    `top_p`, with noise that depends only on `seed`, the position and the token (`mars.sampling`). `layout` is where the
    exact decoder puts its masks: after the last draft (linear), after every prefix of the drafts (quadratic), or what
    the load suggests (auto). `cache_block_size` is how many tokens are written before a decoder that delays it commits
    them to the cache. `draft_tokens` is how many tokens a pass of `speculative` or `jacobi` verifies. `continuation`
    lets `speculative` go on after the verified prefix with the target's own masks, accepted by `threshold`.
    """

    block_size: int = 8
    threshold: float | None = DEFAULT_THRESHOLD
    score: ScoreName = "probability"
    max_new_tokens: int = 192
    extra_proposal: bool = False
    alternatives: int = 0
    use_cache: bool = True
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    layout: LayoutName = "auto"
    cache_block_size: int = 32
    draft_tokens: int = 4
    continuation: bool = False

    def __post_init__(self) -> None:
        _check_range("block_size", self.block_size, 1, MAX_BLOCK_SIZE)
        _check_choice("score", self.score, get_args(ScoreName))
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be >= 1, got {self.max_new_tokens}")
        _check_range("alternatives", self.alternatives, 0, MAX_ALTERNATIVES)
        if not 0.0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be a finite number >= 0, got {self.temperature}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        _check_range("seed", self.seed, 0, MAX_SEED)
        _check_choice("layout", self.layout, get_args(LayoutName))
        _check_range("cache_block_size", self.cache_block_size, 1, MAX_CACHE_BLOCK_SIZE)
        _check_range("draft_tokens", self.draft_tokens, 1, MAX_DRAFT_TOKENS)
        check_threshold(self.threshold, self.score)


def _check_range(name: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise ValueError(f"{name} must be between {lowest} and {highest}, got {value}")


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_threshold(threshold: float | None, score: ScoreName = "probability") -> None:
    """Raise ValueError unless `threshold` is None (one-token mode) or in the range of `score`."""
    if threshold is None:
        return
    upper = math.inf if score == "entropy" else 1.0
    if not math.isfinite(threshold) or not 0.0 <= threshold <= upper:
        allowed = ">= 0 (nats)" if score == "entropy" else "between 0 and 1"
        raise ValueError(f"threshold must be {allowed} for {score}, or none for one-token mode, got {threshold}")
