"""A threshold that changes, a stop, and what cannot run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.scripted import ScriptedModel

Make = Callable[..., Any]


def test_a_new_threshold_acts_on_the_continuation() -> None:
    control = Control(0.5)
    pair = Pair(ScriptedModel(lambda row, position, masks: (5, 0.6)), ScriptedModel([[4] * 30], mask_token_id=None))
    options = DecodingSettings(draft_tokens=1, block_size=3, continuation=True, max_new_tokens=20)
    stream = DECODERS["speculative"](pair, [[3]], options, control)
    found = []
    for threshold in (0.8, None, 0.5):
        next(stream)
        part = next(stream).rows[0]
        found.append((part.threshold, part.accepted, len(part.proposals)))
        control.threshold = threshold
    assert found == [(0.5, 3, 3), (0.8, 1, 3), (None, 1, 2)]


@pytest.mark.parametrize("passes", [0, 1, 2, 3, 6])
def test_stop_ends_the_run_before_the_next_call(
    pair_of: Make, calls: Callable[[Pair], int], usual: DecodingSettings, passes: int
) -> None:
    pair, control = pair_of(1), Control(None)
    stream = DECODERS["speculative"](pair, [[4, 5, 6]], usual, control)
    for _ in range(passes):
        next(stream)
    control.stop()
    assert list(stream) == []
    assert calls(pair) == passes


def test_stop_during_a_draft_pass_is_recorded(usual: DecodingSettings) -> None:
    class Stopping(ScriptedModel):
        def record(self, call: object) -> None:
            super().record(call)
            control.stop()

    control = Control(None)
    stream = DECODERS["speculative"](Pair(ScriptedModel([[5]]), Stopping([[5]])), [[3]], usual, control)
    [record] = list(stream)
    assert (record.phase, record.rows[0].finish_reason) == ("draft", "cancelled")


@pytest.mark.parametrize(
    ("target", "draft", "options", "sentence"),
    [
        ({}, None, {}, r"needs a second, smaller checkpoint.*--draft DIR.*Pair\(target, draft\)"),
        ({}, {"vocab_size": 64}, {}, "another vocabulary than the target: 64 and 32 tokens"),
        ({}, {"context_length": 16}, {"max_new_tokens": 32}, "max_new_tokens must be < the context length of 16"),
        ({"mask_token_id": None}, {}, {"continuation": True}, "not trained to fill masks: speculative with cont"),
        ({}, {}, {"continuation": True, "block_size": 1}, "continuation needs block_size >= 2, got 1"),
        ({}, {}, {"prompts": []}, "prompts must hold at least one prompt"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(
    target: dict[str, object], draft: dict[str, object] | None, options: dict[str, object], sentence: str
) -> None:
    def start() -> object:
        engine = ScriptedModel([[5]], **target)
        engine = engine if draft is None else Pair(engine, ScriptedModel([[5]], **draft))
        changes = dict(options)
        return DECODERS["speculative"](engine, changes.pop("prompts", [[3]]), DecodingSettings(**changes))

    with pytest.raises(ValueError, match=sentence):
        start()
