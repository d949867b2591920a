"""Exact decoding: what it forwards in each layout, what its records say, and what it learns of speed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.layouts import chooser_of
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


def wrong_at(*positions: int) -> ScriptedModel:
    """Recites; at these positions masks propose another token than the real prefix does."""
    return ScriptedModel(
        lambda row, position, masks: (
            (20 if masks and position in positions else [*REPLY, STOP, STOP, STOP, STOP, STOP, STOP][position]),
            0.9,
        )
    )


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
    assert [call.ids[0] for call in model.calls[:3]] == [
        [3],
        [4, MASK, MASK, MASK, MASK],
        [5, 6, 7, MASK, MASK],
    ]
    assert [call.slots[0] for call in model.calls[:3]] == [[1], [2, 3, 4, 5, 6], [3, 4, 5, 6, 7]]
    assert [call.keep for call in model.calls[:3]] == [0, 5, 5]


def test_the_quadratic_window_has_masks_behind_every_prefix() -> None:
    model = ScriptedModel([REPLY])
    run(model, [[3, 4]], layout="quadratic")
    assert model.calls[2].ids[0] == [5, 6, 7, *[MASK] * 6]
    assert model.calls[2].slots[0] == list(range(3, 12))
    assert [call.keep for call in model.calls[:3]] == [0, 9, 9]


@LAYOUTS
def test_proposals_past_the_accepted_prefix_are_the_drafts_of_the_next_pass(layout: str) -> None:
    records = run(wrong_at(4), [[3, 4]], layout=layout)
    passes = seen(records)
    for (start, proposals, accepted), (after, following, gained) in pairwise(passes[:-1]):
        drafts = proposals[accepted:]
        assert after == start + accepted
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


def test_after_a_miss_linear_drafts_what_the_columns_behind_it_say() -> None:
    """What has read the wrong draft for position 4 is offered all the same, here with luck."""
    passes = seen(run(wrong_at(4), [[3, 4]], layout="linear"))
    assert passes[1:4] == [(1, [6, 7, 8, 20, 10], 3), (4, [9, 10, 11], 1), (5, [10, 11, 12, 13, STOP], 3)]


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
    width = {"linear": 5, "quadratic": 9}[layout]
    assert [record.query_tokens for record in records[:3]] == [1, 2 * width, 2 * width]


@pytest.mark.parametrize(("block_size", "extra"), [(1, False)])
def test_a_block_without_a_draft_is_refused(block_size: int, extra: bool) -> None:
    with pytest.raises(ValueError, match="self_speculative needs block_size >= 2, got 1: a block of 1 has no draft"):
        run(ScriptedModel([REPLY]), [[3]], block_size=block_size, extra_proposal=extra)
    assert output_ids(run(ScriptedModel([REPLY]), [[3]], block_size=1, extra_proposal=True)) == REPLY


def test_auto_learns_of_passes_and_settles() -> None:
    """Every pass takes the same time here, so the layout that gains most is best."""
    model = ScriptedModel(lambda row, position, masks: (5, 0.9), seconds_per_pass=0.5)
    run(model, [[3, 4]], layout="auto", max_new_tokens=150)
    widths = [len(call.ids[0]) for call in model.calls[1:]]
    assert {1, 5, 9} == set(widths[:9])
    assert 1 not in widths[10:40]
    assert sum(seen.passes for seen in chooser_of(model, 2).seen.values()) == len(widths)


def test_methods_with_equal_settings_share_a_batch_whatever_their_chooser() -> None:
    model, other = ScriptedModel([REPLY]), ScriptedModel([REPLY])
    settings = DecodingSettings(block_size=4)
    assert method_of(model, settings) == method_of(other, settings)
    assert hash(method_of(model, settings)) == hash(method_of(other, settings))
    assert method_of(model, settings) != method_of(model, DecodingSettings(block_size=4, layout="linear"))
