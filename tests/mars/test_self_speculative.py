"""Exact decoding: what it forwards in each layout, what its records say, and what it learns of speed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, repeat

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.layouts import TRIALS, Chooser, chooser_of
from mars.decoding.self_speculative import method_of
from mars.metrics import Tally, output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

STOP, MASK = 2, 31
REPLY = [5, 6, 7, 8, 9, 10, 11, 12, 13, STOP]
LAYOUTS = pytest.mark.parametrize("layout", ["linear", "quadratic"])


def run(model: ScriptedModel, prompts: list[list[int]], **options: object) -> list[ForwardPass]:
    settings = DecodingSettings(**{"block_size": 3, "max_new_tokens": 20, **options})
    return list(DECODERS["self_speculative"](model, prompts, settings))


def run_through(
    monkeypatch: pytest.MonkeyPatch,
    layouts: Iterable[str],
    model: ScriptedModel,
    prompts: list[list[int]],
    **options: object,
) -> list[ForwardPass]:
    """Passes of these layouts in turn, whatever the chooser thinks."""
    turns = iter(layouts)
    monkeypatch.setattr(Chooser, "choose", lambda chooser, rows: next(turns))
    return run(model, prompts, layout="auto", **options)


def wrong_at(*positions: int) -> ScriptedModel:
    """Recites; at these positions masks propose another token than the real prefix does."""
    return ScriptedModel(
        lambda row, position, masks: (
            (20 if masks and position in positions else [*REPLY, STOP, STOP, STOP, STOP, STOP, STOP][position]),
            0.9,
        )
    )


def unsure(*probabilities: tuple[float, ...]) -> ScriptedModel:
    """Recites; each row's answers have these probabilities by the number of masks read, the last one for more."""
    return ScriptedModel(
        lambda row, position, masks: (
            REPLY[position] if position < len(REPLY) else STOP,
            probabilities[row][min(masks, len(probabilities[row]) - 1)],
        )
    )


def counting() -> ScriptedModel:
    """Counts from 5 to 24, again and again."""
    return ScriptedModel(lambda row, position, masks: (5 + position % 20, 0.9))


def windows(model: ScriptedModel, row: int = 0) -> list[list[int]]:
    """What was read of a row in each pass but prefill."""
    return [call.ids[row] for call in model.calls if call.keep]


def seen(records: list[ForwardPass]) -> list[tuple[int, list[int], int]]:
    """(start, proposals, accepted) of each verify pass of row 0."""
    return [
        (part.start, [proposal.token_id for proposal in part.proposals], part.accepted)
        for record in records
        if record.phase == "verify"
        for part in record.rows
        if part.row == 0
    ]


def sources(records: list[ForwardPass]) -> list[list[str]]:
    return [[proposal.source for proposal in record.rows[0].proposals] for record in records]


def test_the_linear_window_is_root_drafts_masks() -> None:
    model = ScriptedModel([REPLY])
    run(model, [[3, 4]], layout="linear")
    assert [call.ids[0] for call in model.calls[:3]] == [[3], [4, MASK, MASK], [5, 6, 7, MASK, MASK]]
    assert [call.slots[0] for call in model.calls[:3]] == [[1], [2, 3, 4], [3, 4, 5, 6, 7]]
    assert [call.keep for call in model.calls[:3]] == [0, 3, 5]


def test_linear_drafts_are_the_sure_ones_from_the_left() -> None:
    """The records show what all K masks proposed."""
    for probabilities, drafts in [
        ((1.0, 0.51, 0.51, 0.51), 3),
        ((1.0, 0.9, 0.51, 0.49), 2),
        ((1.0, 0.51, 0.49, 0.9), 1),
        ((1.0, 0.49, 1.0, 1.0), 0),
        ((0.2, 1.0, 1.0, 1.0), 3),
    ]:
        model = unsure(probabilities)
        passes = seen(run(model, [[3]], layout="linear", block_size=4))
        assert passes[0] == (0, REPLY[:4], 1)
        assert windows(model)[:2] == [[3, *[MASK] * 3], [*REPLY[: 1 + drafts], *[MASK] * 3]]
        assert passes[1] == (1, REPLY[1 : drafts + 5], 1 + drafts)


def test_linear_rows_with_fewer_drafts_than_others_are_padded_on_the_left() -> None:
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


def test_the_quadratic_window_has_masks_behind_every_prefix() -> None:
    model = ScriptedModel([REPLY])
    run(model, [[3, 4]], layout="quadratic")
    assert model.calls[2].ids[0] == [5, 6, 7, *[MASK] * 6]
    assert model.calls[2].slots[0] == list(range(3, 12))
    assert [call.keep for call in model.calls[:3]] == [0, 9, 9]


@LAYOUTS
def test_proposals_past_the_accepted_prefix_are_the_drafts_of_the_next_pass(layout: str) -> None:
    """Unless linear missed: then there are none."""
    model = wrong_at(4)
    records = run(model, [[3, 4]], layout=layout)
    passes, missed, read = seen(records), False, windows(model)
    for number, ((start, proposals, accepted), (after, following, gained)) in enumerate(pairwise(passes[:-1])):
        missed = layout == "linear" and number > 0 and not missed and accepted < 3
        drafts = [] if missed else proposals[accepted : accepted + 2]
        assert after == start + accepted
        assert read[number + 1][1 : len(drafts) + 1] == drafts
        assert set(read[number + 1][len(drafts) + 1 :]) == {MASK}
        right = [draft == token for draft, token in zip(drafts, following, strict=False)]
        assert gained == 1 + (right.index(False) if False in right else len(right))
    assert output_ids(records) == REPLY


def test_all_drafts_right_gains_one_more_than_drafts_in_each_pass() -> None:
    for layout in ("linear", "quadratic"):
        passes = seen(run(ScriptedModel([REPLY]), [[3, 4]], layout=layout))
        assert passes == [
            (0, [5, 6, 7], 1),
            (1, [6, 7, 8, 9, 10], 3),
            (4, [9, 10, 11, 12, 13], 3),
            (7, [12, 13, STOP, STOP, STOP], 3),
        ]


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


def test_one_token_passes_leave_no_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that they find are lost; every other layout goes on from nothing."""
    model = counting()
    turns = ["none", "linear", "none", "quadratic", "linear", "none", "linear"]
    records = run_through(monkeypatch, turns, model, [[3]], max_new_tokens=9)
    assert windows(model) == [
        [3],
        [5, MASK, MASK],
        [6],
        [7, *[MASK] * 8],
        [8, 9, 10, MASK, MASK],
        [11],
        [12, MASK, MASK],
    ]
    assert sources(records)[0] == ["clean"]
    assert output_ids(records) == list(range(5, 14))


def test_the_narrow_layout_is_linear_with_fewer_drafts_and_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, linear = counting(), counting()
    records = run_through(monkeypatch, repeat("narrow"), narrow, [[3, 4]], block_size=8)
    alone = run(linear, [[3, 4]], layout="linear", block_size=4)
    assert windows(narrow)[:3] == [[4, *[MASK] * 3], [5, 6, 7, 8, *[MASK] * 3], [9, 10, 11, 12, *[MASK] * 3]]
    assert narrow.calls == linear.calls
    assert [(each.query_tokens, each.rows) for each in records] == [(each.query_tokens, each.rows) for each in alone]


def test_narrow_rows_with_fewer_drafts_than_others_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = unsure((1.0, 0.9, 0.4), (1.0, 0.4), (1.0, 0.9, 0.9, 0.9, 0.4))
    records = run_through(monkeypatch, repeat("narrow"), model, [[3, 4], [3, 4, 4], [3]], block_size=8)
    second = [call for call in model.calls if call.keep][1]
    masks = [MASK] * 3
    assert second.ids == [[0, 0, 5, 6, *masks], [0, 0, 0, 5, *masks], [5, 6, 7, 8, *masks]]
    assert records[2].query_tokens == 5 + 4 + 7
    assert [output_ids(records, row) for row in range(3)] == [REPLY] * 3


def test_narrow_passes_leave_out_drafts_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of the 16 that the linear pass made and the narrow one had no columns for."""
    model = counting()
    turns = ["linear", "narrow", "linear", "quadratic"]
    records = run_through(monkeypatch, turns, model, [[3]], block_size=17, max_new_tokens=10)
    assert windows(model)[:3] == [[3, *[MASK] * 16], [5, 6, 7, 8, *[MASK] * 3], [9, 10, 11, 12, *[MASK] * 16]]
    assert [part.accepted for record in records for part in record.rows] == [1, 4, 4, 1]
    assert sources(records)[1] == ["clean", "draft", "draft", "draft", "mask", "mask", "mask"]
    assert [record.query_tokens for record in records[:3]] == [17, 7, 20]
    assert output_ids(records) == list(range(5, 15))


def test_after_a_miss_narrow_has_no_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wrong_at(2)
    records = run_through(monkeypatch, ["linear", *["narrow"] * 9], model, [[3]], block_size=8)
    assert seen(records)[1] == (1, [6, 7, 8, 9][: 1 + 3], 2)
    assert windows(model)[1:3] == [[5, 6, 20, 8, *[MASK] * 3], [7, *[MASK] * 3]]
    assert sources(records)[1] == ["clean", "draft", "draft", "draft"]
    assert output_ids(records) == REPLY


def test_narrow_passes_have_one_shape_where_columns_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    model = unsure((1.0, 0.9, 0.4), (1.0, 0.4))
    model.static_shapes = True
    records = run_through(monkeypatch, repeat("narrow"), model, [[3, 4], [3, 4, 4]], block_size=8)
    assert {call.keep for call in model.calls if call.keep} == {7}
    assert [part.accepted for part in records[2].rows] == [4, 4], "every draft is verified"
    assert [output_ids(records, row) for row in range(2)] == [REPLY] * 2


def test_after_a_miss_quadratic_drafts_what_masks_say_that_read_the_accepted_prefix() -> None:
    passes = seen(run(wrong_at(5), [[3, 4]], layout="quadratic"))
    assert passes[1:4] == [(1, [6, 7, 8, 9, 20], 3), (4, [9, 10, 11, 12], 2), (6, [11, 12, 13, STOP, STOP], 3)]


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


@LAYOUTS
def test_the_extra_proposal_is_one_draft_more(layout: str) -> None:
    plain, extra = (
        Tally.of(run(ScriptedModel([[5] * 30]), [[3]], layout=layout, max_new_tokens=25, extra_proposal=extra))
        for extra in (False, True)
    )
    assert (max(plain.acceptance_lengths), max(extra.acceptance_lengths)) == (3, 4)


@LAYOUTS
def test_query_tokens_count_masks_and_drafts(layout: str) -> None:
    records = run(ScriptedModel([REPLY, REPLY]), [[3, 4], [5]], layout=layout)
    first, second = {"linear": (3, 5), "quadratic": (9, 9)}[layout]
    assert [record.query_tokens for record in records[:3]] == [1, 2 * first, 2 * second]


@pytest.mark.parametrize(("block_size", "extra"), [(1, False)])
def test_a_block_without_a_draft_is_refused(block_size: int, extra: bool) -> None:
    with pytest.raises(ValueError, match="self_speculative needs block_size >= 2, got 1: a block of 1 has no draft"):
        run(ScriptedModel([REPLY]), [[3]], block_size=block_size, extra_proposal=extra)
    assert output_ids(run(ScriptedModel([REPLY]), [[3]], block_size=1, extra_proposal=True)) == REPLY


def test_auto_learns_of_passes_and_settles() -> None:
    """Every pass takes the same time here, so the layout that gains most is best."""
    model = ScriptedModel(lambda row, position, masks: (5, 0.9), seconds_per_pass=0.5)
    run(model, [[3, 4]], layout="auto", max_new_tokens=150)
    widths = [len(window) for window in windows(model)]
    assert widths[: 3 * TRIALS + 2] == [1] * TRIALS + [3] + [5] * TRIALS + [9] * (TRIALS + 1)
    assert set(widths[3 * TRIALS + 2 :]) == {9}
    assert chooser_of(model, 2).now == len(widths)
    assert chooser_of(model, 2).gain("none") == 1


def test_methods_with_equal_settings_share_a_batch_whatever_their_chooser() -> None:
    model, other = ScriptedModel([REPLY]), ScriptedModel([REPLY])
    settings = DecodingSettings(block_size=4)
    assert method_of(model, settings) == method_of(other, settings)
    assert hash(method_of(model, settings)) == hash(method_of(other, settings))
    assert method_of(model, settings) != method_of(model, DecodingSettings(block_size=4, layout="linear"))
