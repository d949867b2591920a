"""Exact decoding: what is forwarded, which proposals become drafts, what a miss costs, what the records say."""

from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.self_speculative import method_of
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ScriptedModel

STOP, MASK = 2, 31
REPLY = [*range(5, 14), STOP]
LAYOUTS = pytest.mark.parametrize("layout", ["linear", "quadratic"])


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


def seen(records: list[ForwardPass]) -> list[tuple[int, list[int], int]]:
    """(start, proposals, accepted) of each verify pass of row 0."""
    parts = [part for record in records if record.phase == "verify" for part in record.rows if part.row == 0]
    return [(part.start, [proposal.token_id for proposal in part.proposals], part.accepted) for part in parts]


def test_linear_rows_with_fewer_drafts_are_padded() -> None:
    model = unsure((1.0, 0.9, 0.4), (1.0, 0.4), (1.0, 0.9, 0.9, 0.4))
    records = run(model, [[3, 4], [3, 4, 4], [3]], layout="linear", block_size=4)
    first, second = [call for call in model.calls if call.keep][:2]
    masks = [MASK] * 3
    assert first.ids == [[4, *masks], [4, *masks], [3, *masks]]
    assert first.slots == [[2, 3, 4, 5], [3, 4, 5, 6], [1, 2, 3, 4]]
    assert second.ids == [[0, 5, 6, *masks], [0, 0, 5, *masks], [5, 6, 7, *masks]]
    assert second.slots == [[0, 3, 4, 5, 6, 7], [0, 0, 4, 5, 6, 7], [2, 3, 4, 5, 6, 7]]
    assert (first.keep, second.keep) == (4, 6)
    assert [part.accepted for part in records[2].rows] == [2, 1, 3]
    assert [record.query_tokens for record in records[1:3]] == [12, 5 + 4 + 6], "padding is not counted"
    assert [output_ids(records, row) for row in range(3)] == [REPLY] * 3


def test_where_columns_are_free_every_draft_is_verified() -> None:
    model = unsure((1.0, 0.9, 0.4), (1.0, 0.4), (1.0, 0.9, 0.9, 0.4))
    model.static_shapes = True
    records = run(model, [[3, 4], [3, 4, 4], [3]], layout="linear", block_size=4)
    first, second = [call for call in model.calls if call.keep][:2]
    assert first.ids[0] == [0, 0, 0, 4, *[MASK] * 3]
    assert second.ids == [[*REPLY[:4], *[MASK] * 3]] * 3
    assert {call.keep for call in model.calls if call.keep} == {7}
    assert [part.accepted for part in records[2].rows] == [4, 4, 4]
    assert [output_ids(records, row) for row in range(3)] == [REPLY] * 3


@pytest.mark.parametrize("score", ["margin", "entropy"])
@LAYOUTS
def test_drafts_do_not_depend_on_the_score(layout: str, score: str) -> None:
    """Sureness is a probability even where the records say something else."""
    chances = [((1.0, 0.9, 0.51, 0.49), (0.5, 0.99, 0.9, 0.3)), ((1.0, 0.51, 1.0, 0.6), (1.0, 0.6, 0.9, 0.3))]
    for probabilities in chances:
        plain, other = unsure(*probabilities), unsure(*probabilities)
        records = run(plain, [[3, 4], [5]], layout=layout, block_size=4)
        scored = run(other, [[3, 4], [5]], layout=layout, block_size=4, score=score)
        assert plain.calls == other.calls
        assert seen(records) == seen(scored)
        assert records[1].rows[0].proposals[1].score != scored[1].rows[0].proposals[1].score


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
