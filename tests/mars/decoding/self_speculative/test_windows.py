"""What is forwarded: roots, drafts and masks of each layout, padded where rows have fewer drafts than others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

STOP, MASK = 2, 31
Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]


def test_the_linear_window_is_root_drafts_masks(run: Run, reply: list[int]) -> None:
    model = ScriptedModel([reply])
    run(model, [[3, 4]], layout="linear")
    assert [call.ids[0] for call in model.calls[:3]] == [[3], [4, MASK, MASK], [5, 6, 7, MASK, MASK]]
    assert [call.slots[0] for call in model.calls[:3]] == [[1], [2, 3, 4], [3, 4, 5, 6, 7]]
    assert [call.keep for call in model.calls[:3]] == [0, 3, 5]


def test_linear_rows_with_fewer_drafts_are_padded(run: Run, unsure: Make, reply: list[int]) -> None:
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
    assert [output_ids(records, row) for row in range(3)] == [reply] * 3


def test_where_columns_are_free_every_draft_is_verified(run: Run, unsure: Make, reply: list[int]) -> None:
    model = unsure((1.0, 0.9, 0.4), (1.0, 0.4), (1.0, 0.9, 0.9, 0.4))
    model.static_shapes = True
    records = run(model, [[3, 4], [3, 4, 4], [3]], layout="linear", block_size=4)
    first, second = [call for call in model.calls if call.keep][:2]
    assert first.ids[0] == [0, 0, 0, 4, *[MASK] * 3]
    assert second.ids == [[*reply[:4], *[MASK] * 3]] * 3
    assert {call.keep for call in model.calls if call.keep} == {7}
    assert [part.accepted for part in records[2].rows] == [4, 4, 4]
    assert [output_ids(records, row) for row in range(3)] == [reply] * 3


def test_the_quadratic_window_has_masks_behind_every_prefix(run: Run, reply: list[int]) -> None:
    model = ScriptedModel([reply])
    run(model, [[3, 4]], layout="quadratic")
    assert model.calls[2].ids[0] == [5, 6, 7, *[MASK] * 6]
    assert model.calls[2].slots[0] == list(range(3, 12))
    assert [call.keep for call in model.calls[:3]] == [0, 9, 9]
