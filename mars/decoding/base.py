"""The protocol of decoders, and the checks of their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch

from mars.config import DecodingSettings
from mars.control import Control
from mars.engine import Engine
from mars.records import ForwardPass

Prompts = Sequence[Sequence[int]]


class Decoder(Protocol):
    """A decoder checks its arguments when called, then calls the model once for each record that is asked for."""

    def __call__(
        self, engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
    ) -> Iterator[ForwardPass]:
        """Records of decoding `prompts` (token ids, one list a row); a `control` has the threshold that acts."""


def check(engine: Engine, prompts: Prompts, settings: DecodingSettings) -> None:
    """Raise ValueError unless every prompt can be decoded under `settings`."""
    if not prompts:
        raise ValueError("prompts must hold at least one prompt, got none")
    for number, prompt in enumerate(prompts):
        check_prompt(engine, prompt, settings, number)


def check_prompt(engine: Engine, prompt: Sequence[int], settings: DecodingSettings, number: int = 0) -> None:
    """Raise ValueError unless this prompt can be decoded under `settings`."""
    if not settings.use_cache:
        raise ValueError("use_cache must be true: nothing is written without a cache any more")
    limit = engine.context_length - settings.max_new_tokens
    if limit < 1:
        raise ValueError(
            f"max_new_tokens must be < the context length of {engine.context_length}, got {settings.max_new_tokens}"
        )
    if not prompt:
        raise ValueError(f"prompt {number} is empty: it needs at least one token")
    if len(prompt) > limit:
        fits = f"at most {limit} fit with max_new_tokens={settings.max_new_tokens}"
        raise ValueError(f"the prompt has {len(prompt)} tokens, {fits}")
    if not 0 <= min(prompt) <= max(prompt) < engine.vocab_size:
        wrong = min(prompt) if min(prompt) < 0 else max(prompt)
        raise ValueError(f"token ids must be between 0 and {engine.vocab_size - 1}, got {wrong}")


def trained_mask(engine: Engine, decoder: str) -> int:
    """The mask token's id; ValueError where the model was not trained to fill masks."""
    if engine.mask_token_id is None:
        raise ValueError(
            f"this checkpoint was not trained to fill masks: {decoder} needs one with a trained <|mask|> token, from "
            "`python -m mars.training mars` or a published MARS blk4, blk8 or blk16; autoregressive needs none"
        )
    return engine.mask_token_id


def calibration_of(engine: Engine, settings: DecodingSettings) -> torch.Tensor | None:
    """The calibration of the masks' scores that these settings ask for; None if they ask for another score.

    ValueError where the checkpoint has none.
    """
    if settings.score != "calibrated":
        return None
    if engine.calibration is None:
        raise ValueError(
            "the score calibrated needs a checkpoint that was calibrated (`python -m analysis calibrate --checkpoint "
            "DIR`), and this one was not: use probability, margin or entropy"
        )
    return engine.calibration
