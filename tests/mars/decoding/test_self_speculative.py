"""Exact decoding beside what tests/mars/test_reference.py compares: scores, refusals, and methods that are equal."""

from typing import Any

import pytest

from mars.config import MAX_BLOCK_SIZE, DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.self_speculative import method_of
from mars.decoding.service import LOOKAHEAD
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ScriptedModel

STOP = 2
REPLY = [*range(5, 14), STOP]


def recited(position: int) -> int:
    return REPLY[position] if position < len(REPLY) else STOP


def unsure(*probabilities: tuple[float, ...]) -> ScriptedModel:
    """Recites; each row's answers have these probabilities by the number of masks read, the last one for more."""
    return ScriptedModel(
        lambda row, place, masks: (recited(place), probabilities[row][min(masks, len(probabilities[row]) - 1)])
    )


def run(model: ScriptedModel, prompts: list[list[int]], **options: Any) -> list[ForwardPass]:
    settings = DecodingSettings(**{"block_size": 3, "max_new_tokens": 20, **options})
    return list(DECODERS["self_speculative"](model, prompts, settings))


@pytest.mark.parametrize("layout", ["linear", "quadratic", "tree"])
def test_drafts_do_not_depend_on_the_score(layout: str) -> None:
    found = []
    for score in ("probability", "margin", "calibrated"):
        model = unsure((1.0, 0.9, 0.51, 0.49), (0.5, 0.99, 0.9, 0.3))
        records = run(model, [[3, 4], [5]], layout=layout, block_size=4, score=score)
        found.append((model.calls, [record.rows for record in records]))
    assert found[0] == found[1] == found[2]


def test_a_service_has_room_for_every_block_size() -> None:
    settings = DecodingSettings(block_size=MAX_BLOCK_SIZE)
    assert method_of(ScriptedModel([REPLY]), settings).lookahead < LOOKAHEAD


def test_a_block_without_a_draft_is_refused() -> None:
    with pytest.raises(ValueError, match="self_speculative needs block_size >= 2, got 1: a block of 1 has no draft"):
        run(ScriptedModel([REPLY]), [[3]], block_size=1)
    assert output_ids(run(ScriptedModel([REPLY]), [[3]], block_size=1, extra_proposal=True)) == REPLY


def test_methods_with_equal_settings_are_equal() -> None:
    model, other = ScriptedModel([REPLY]), ScriptedModel([REPLY])
    settings = DecodingSettings(block_size=4)
    assert method_of(model, settings) == method_of(other, settings)
    assert hash(method_of(model, settings)) == hash(method_of(other, settings))
    assert method_of(model, settings) != method_of(model, DecodingSettings(block_size=4, layout="linear"))
