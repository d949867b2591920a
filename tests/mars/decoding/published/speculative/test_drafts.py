"""What the draft proposes before each pass of the target, who waits meanwhile, and what the records say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.decoding.pair import Pair
from mars.metrics import Tally
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]


def test_a_draft_that_agrees_gains_all_its_tokens(run: Run) -> None:
    target = ScriptedModel([[5, 6, 7, 8, 9, 10, 12, 2]])
    draft = ScriptedModel([[5, 6, 7, 8, 9, 10, 12, 2]], mask_token_id=None, seconds_per_pass=0.25)
    records = run(Pair(target, draft), [[3, 4]])
    assert [record.phase for record in records] == ["prefill"] * 2 + (["draft"] * 3 + ["verify"]) * 2
    assert [part.accepted for record in records for part in record.rows] == [0, 0, 0, 0, 0, 4, 0, 0, 0, 4]
    assert [record.seconds for record in records[2:6]] == [0.25] * 3 + [pytest.approx(0.001)]
    assert [call.ids for call in target.calls] == [[[3]], [[4, 5, 6, 7]], [[8, 9, 10, 12]]]
    assert [call.ids for call in draft.calls] == [[[3]], [[4]], [[5]], [[6]], [[7, 8]], [[9]], [[10]]]
    assert [record.query_tokens for record in records] == [1, 1, 1, 1, 1, 4, 2, 1, 1, 4]
    tally = Tally.of(records)
    assert (tally.tokens, tally.passes) == (8, 2)


def test_sources_say_what_was_read(run: Run, usual: DecodingSettings) -> None:
    target = ScriptedModel([[5, 6, 7, 8, 9, 10, 12, 2]])
    draft = ScriptedModel([[5, 6, 4, 8, 9, 10, 12, 2]], mask_token_id=None)
    records = run(Pair(target, draft), [[3]], replace(usual, continuation=True))
    sources = [[proposal.source for proposal in record.rows[0].proposals] for record in records[:4]]
    assert sources == [["clean"], ["draft"], ["draft"], ["clean", "draft", "draft", "mask", "mask", "mask"]]
    assert records[3].rows[0].accepted == 6, "two drafts, the target's token, and all that its masks propose"


def test_a_mars_draft_needs_fewer_passes(run: Run) -> None:
    target, draft = ScriptedModel([[5, 6, 7, 8, 9, 2]]), ScriptedModel([[5, 6, 7, 8, 9, 2]])
    records = run(Pair(target, draft), [[3]])
    assert [record.phase for record in records] == ["draft", "verify"] * 2
    assert draft.calls[0].ids == [[3, 31, 31]]
    assert {part.threshold for record in records for part in record.rows if record.phase == "draft"} == {0.6}
    assert {part.threshold for record in records for part in record.rows if record.phase == "verify"} == {None}


def test_a_row_that_has_its_drafts_waits(run: Run, usual: DecodingSettings) -> None:
    draft = ScriptedModel(lambda row, position, masks: (5, 0.9 if row == 0 or masks == 0 else 0.3))
    target = ScriptedModel(lambda row, position, masks: (5, 0.9))
    records = run(Pair(target, draft), [[3], [4]], replace(usual, max_new_tokens=4))
    assert [[part.row for part in record.rows] for record in records] == [[0, 1], [1], [1], [0, 1]]
    assert [record.phase for record in records] == ["draft"] * 3 + ["verify"]
    assert [len(call.ids) for call in draft.calls] == [2, 2, 2]
