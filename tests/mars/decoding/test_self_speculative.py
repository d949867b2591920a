"""Exact decoding: what is forwarded, which proposals become drafts, what a miss costs, what the records say."""

from __future__ import annotations

from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.self_speculative import SelfSpeculative, method_of
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ScriptedModel

STOP, MASK = 2, 31
REPLY = [*range(5, 14), STOP]
LAYOUTS = pytest.mark.parametrize("layout", ["linear", "quadratic"])


def recited(position: int) -> int:
    return REPLY[position] if position < len(REPLY) else STOP


def wrong_at(*positions: int) -> ScriptedModel:
    """Recites; at these positions masks propose another token, 20, than the real prefix does."""
    return ScriptedModel(lambda _, place, masks: (20 if masks and place in positions else recited(place), 0.9))


def unsure(*probabilities: tuple[float, ...]) -> ScriptedModel:
    """Recites; each row's answers have these probabilities by the number of masks read, the last one for more."""
    return ScriptedModel(
        lambda row, place, masks: (recited(place), probabilities[row][min(masks, len(probabilities[row]) - 1)])
    )


def run(model: ScriptedModel, prompts: list[list[int]], **options: Any) -> list[ForwardPass]:
    settings = DecodingSettings(**{"block_size": 3, "max_new_tokens": 20, **options})
    return list(DECODERS["self_speculative"](model, prompts, settings))


def windows(model: ScriptedModel) -> list[list[int]]:
    """What was read of the first row in each pass but prefill."""
    return [call.ids[0] for call in model.calls if call.keep]


def seen(records: list[ForwardPass]) -> list[tuple[int, list[int], int]]:
    """(start, proposals, accepted) of each verify pass of row 0."""
    parts = [part for record in records if record.phase == "verify" for part in record.rows if part.row == 0]
    return [(part.start, [proposal.token_id for proposal in part.proposals], part.accepted) for part in parts]


def sources(records: list[ForwardPass]) -> list[list[str]]:
    """What each proposal for row 0 read, pass by pass."""
    return [[proposal.source for proposal in record.rows[0].proposals] for record in records]


def test_the_linear_window_is_root_drafts_masks() -> None:
    model = ScriptedModel([REPLY])
    run(model, [[3, 4]], layout="linear")
    assert [call.ids[0] for call in model.calls[:3]] == [[3], [4, MASK, MASK], [5, 6, 7, MASK, MASK]]
    assert [call.slots[0] for call in model.calls[:3]] == [[1], [2, 3, 4], [3, 4, 5, 6, 7]]
    assert [call.keep for call in model.calls[:3]] == [0, 3, 5]


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


def test_the_quadratic_window_has_masks_behind_every_prefix() -> None:
    model = ScriptedModel([REPLY])
    run(model, [[3, 4]], layout="quadratic")
    assert model.calls[2].ids[0] == [5, 6, 7, *[MASK] * 6]
    assert model.calls[2].slots[0] == list(range(3, 12))
    assert [call.keep for call in model.calls[:3]] == [0, 9, 9]


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


def test_after_a_miss_linear_has_no_drafts() -> None:
    """What the columns behind the wrong draft for position 4 say is shown and not used, though right by luck."""
    model = wrong_at(4)
    records = run(model, [[3, 4]], layout="linear")
    assert seen(records)[1:5] == [
        (1, [6, 7, 8, 20, 10], 3),
        (4, [9, 10, 11], 1),
        (5, [10, 11, 12], 1),
        (6, [11, 12, 13, STOP, STOP], 3),
    ]
    assert windows(model)[1:5] == [
        [5, 6, 7, MASK, MASK],
        [8, 20, 10, MASK, MASK],
        [9, MASK, MASK],
        [10, 11, 12, MASK, MASK],
    ]
    assert sources(records)[2:5] == [
        ["clean", "draft", "draft", "mask", "mask"],
        ["clean", "draft", "draft"],
        ["clean", "mask", "mask"],
    ]


def test_a_row_that_missed_waits_for_no_other() -> None:
    """Beside it a row goes on with drafts, and both write what they write alone."""

    def script(row: int, position: int, masks: int) -> tuple[int, float]:
        token = REPLY[position] if position < len(REPLY) else STOP
        return (20 if masks and row == 0 and position == 4 else token), 0.9

    model = ScriptedModel(script)
    records = run(model, [[3, 4], [3, 4]], layout="linear")
    third = [call.ids for call in model.calls if call.keep][3]
    assert third == [[0, 0, 9, MASK, MASK], [11, 12, 13, MASK, MASK]]
    assert [output_ids(records, row) for row in range(2)] == [REPLY] * 2


@LAYOUTS
def test_records_say_verify_and_no_threshold(layout: str) -> None:
    records = run(ScriptedModel([REPLY]), [[3, 4]], layout=layout, threshold=0.5)
    assert [record.phase for record in records] == ["prefill", *["verify"] * (len(records) - 1)]
    assert {part.threshold for record in records for part in record.rows} == {None}


def test_sources_say_what_each_proposal_read() -> None:
    linear = sources(run(ScriptedModel([REPLY]), [[3]], layout="linear"))
    assert linear[:2] == [["clean", "mask", "mask"], ["clean", "draft", "draft", "mask", "mask"]]
    quadratic = sources(run(wrong_at(3), [[3]], layout="quadratic"))
    passes = seen(run(wrong_at(3), [[3]], layout="quadratic"))
    assert quadratic[0] == ["clean", "mask", "mask"]
    for read, (_, _, accepted) in list(zip(quadratic, passes, strict=True))[1:-1]:
        assert read == ["clean", *["draft"] * (accepted - 1), "mask", "mask"]


@pytest.mark.parametrize(("block_size", "extra"), [(1, False)])
def test_a_block_without_a_draft_is_refused(block_size: int, extra: bool) -> None:
    with pytest.raises(ValueError, match="self_speculative needs block_size >= 2, got 1: a block of 1 has no draft"):
        run(ScriptedModel([REPLY]), [[3]], block_size=block_size, extra_proposal=extra)
    assert output_ids(run(ScriptedModel([REPLY]), [[3]], block_size=1, extra_proposal=True)) == REPLY


def test_a_pass_without_drafts_equals_one_of_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    def records() -> list[ForwardPass]:
        return run(ScriptedModel([REPLY, REPLY[2:]], seconds_per_pass=0.5), [[3, 4], [5, 6, 7]], layout="auto")

    found, judge, trees = records(), SelfSpeculative._judge_none, []

    def as_tree(method: SelfSpeculative, batch: Any, logits_RWV: Any) -> Any:
        if not method.planned:
            return judge(method, batch, logits_RWV)
        trees.append(batch)
        return method._judge_tree(batch, logits_RWV)

    monkeypatch.setattr(SelfSpeculative, "_judge_none", as_tree)
    assert records() == found
    assert trees


def test_methods_with_equal_settings_are_equal() -> None:
    model, other = ScriptedModel([REPLY]), ScriptedModel([REPLY])
    settings = DecodingSettings(block_size=4)
    assert method_of(model, settings) == method_of(other, settings)
    assert hash(method_of(model, settings)) == hash(method_of(other, settings))
    assert method_of(model, settings) != method_of(model, DecodingSettings(block_size=4, layout="linear"))
