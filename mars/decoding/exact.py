"""Exact multi-token decoding: with layout `auto` a controller chooses what each row spends, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.base import Prompts, check
from mars.decoding.controller import controller_of
from mars.decoding.pool import decode
from mars.decoding.self_speculative import SelfSpeculative, uncontrolled
from mars.engine import Engine
from mars.records import ForwardPass


def self_speculative(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """Exactly the text of `autoregressive` on the same checkpoint, in several times fewer passes.

    K is `block_size` - 1 (`block_size` with `extra_proposal`). Records carry no threshold. The proposals past the
    accepted prefix are those of the masks behind it, from which the next pass takes its drafts; after a miss in a
    linear layout there are none, and they are what the model predicts behind the wrong draft.

    Raises:
        ValueError: at the call, for prompts that are empty or do not fit the context, a model without masks, or a block
            size that leaves no draft.
    """
    check(engine, prompts, settings)
    return decode(engine, prompts, settings, control or Control(None), method_of(engine, settings))


def method_of(engine: Engine, settings: DecodingSettings) -> SelfSpeculative:
    """The method that these settings ask for.

    Raises:
        ValueError: the model was not trained to fill masks, or there is no room for a draft.
    """
    return replace(uncontrolled(engine, settings), chosen_by=controller_of if settings.layout == "auto" else None)
