"""Passes of given layouts in turn: narrow ones, those of one token, and what either leaves to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import pytest

from mars.decoding.controller import Controller
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel
from tests.in_turn import in_turn

MASK = 31
Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]
Read = Callable[..., list]


@pytest.fixture
def run_through(monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    """`run_through(layouts, model, prompts)`: passes of these layouts in turn, whatever the controller thinks."""

    def run_through(layouts: Iterable[str], *arguments: object, **options: object) -> list[ForwardPass]:
        turns = iter(layouts)
        monkeypatch.setattr(Controller, "plan", in_turn(lambda: next(turns)))
        return run(*arguments, layout="auto", **options)

    return run_through


def counting() -> ScriptedModel:
    """Counts from 5 to 24, again and again."""
    return ScriptedModel(lambda row, position, masks: (5 + position % 20, 0.9))


def test_one_token_passes_leave_no_drafts(run_through: Run, windows: Read, sources: Read) -> None:
    """Those that they find are lost; every other layout goes on from nothing."""
    model = counting()
    turns = ["none", "linear", "none", "quadratic", "linear", "none", "linear"]
    records = run_through(turns, model, [[3]], max_new_tokens=9)
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


def test_the_narrow_layout_is_linear_with_fewer_drafts_and_masks(run: Run, run_through: Run, windows: Read) -> None:
    narrow, linear = counting(), counting()
    records = run_through(repeat("narrow"), narrow, [[3, 4]], block_size=8)
    alone = run(linear, [[3, 4]], layout="linear", block_size=4)
    assert windows(narrow)[:3] == [[4, *[MASK] * 3], [5, 6, 7, 8, *[MASK] * 3], [9, 10, 11, 12, *[MASK] * 3]]
    assert narrow.calls == linear.calls
    assert [(each.query_tokens, each.rows) for each in records] == [(each.query_tokens, each.rows) for each in alone]


def test_narrow_rows_with_fewer_drafts_than_others_are_padded(run_through: Run, unsure: Make, reply: list[int]) -> None:
    model = unsure((1.0, 0.9, 0.4), (1.0, 0.4), (1.0, 0.9, 0.9, 0.9, 0.4))
    records = run_through(repeat("narrow"), model, [[3, 4], [3, 4, 4], [3]], block_size=8)
    second = [call for call in model.calls if call.keep][1]
    masks = [MASK] * 3
    assert second.ids == [[0, 0, 5, 6, *masks], [0, 0, 0, 5, *masks], [5, 6, 7, 8, *masks]]
    assert records[2].query_tokens == 5 + 4 + 7
    assert [output_ids(records, row) for row in range(3)] == [reply] * 3


def test_narrow_passes_leave_out_drafts_that_are_too_many(run_through: Run, windows: Read, sources: Read) -> None:
    """Nothing is left of the 16 that the linear pass made and the narrow one had no columns for."""
    model = counting()
    turns = ["linear", "narrow", "linear", "quadratic"]
    records = run_through(turns, model, [[3]], block_size=17, max_new_tokens=10)
    assert windows(model)[:3] == [[3, *[MASK] * 16], [5, 6, 7, 8, *[MASK] * 3], [9, 10, 11, 12, *[MASK] * 16]]
    assert [part.accepted for record in records for part in record.rows] == [1, 4, 4, 1]
    assert sources(records)[1] == ["clean", "draft", "draft", "draft", "mask", "mask", "mask"]
    assert [record.query_tokens for record in records[:3]] == [17, 7, 20]
    assert output_ids(records) == list(range(5, 15))


def test_after_a_miss_narrow_has_no_drafts(
    run_through: Run, wrong_at: Make, windows: Read, seen: Read, sources: Read, reply: list[int]
) -> None:
    model = wrong_at(2)
    records = run_through(["linear", *["narrow"] * 9], model, [[3]], block_size=8)
    assert seen(records)[1] == (1, [6, 7, 8, 9][: 1 + 3], 2)
    assert windows(model)[1:3] == [[5, 6, 20, 8, *[MASK] * 3], [7, *[MASK] * 3]]
    assert sources(records)[1] == ["clean", "draft", "draft", "draft"]
    assert output_ids(records) == reply


def test_narrow_passes_have_one_shape_where_columns_are_free(run_through: Run, unsure: Make, reply: list[int]) -> None:
    model = unsure((1.0, 0.9, 0.4), (1.0, 0.4))
    model.static_shapes = True
    records = run_through(repeat("narrow"), model, [[3, 4], [3, 4, 4]], block_size=8)
    assert {call.keep for call in model.calls if call.keep} == {7}
    assert [part.accepted for part in records[2].rows] == [4, 4], "every draft is verified"
    assert [output_ids(records, row) for row in range(2)] == [reply] * 2
