"""What each pass reads and fills, and which rows wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mars.config import DecodingSettings
from mars.decoding.published.block_diffusion import choose
from mars.records import ForwardPass
from mars.scripted import Diffusing, ScriptedModel

Run = Callable[..., list[ForwardPass]]


def test_the_surest_position_is_filled_first(run: Run) -> None:
    scores = [0.4, 0.9, 0.3, 0.8]
    engine = Diffusing(ScriptedModel(lambda row, position, masks: (5 + position, scores[position])), 4)
    records = run(engine, [[3] * 4], DecodingSettings(block_size=4, threshold=None, max_new_tokens=4))
    assert [call.ids[0] for call in engine.model.calls][1:] == [
        [31, 31, 31, 31],
        [31, 6, 31, 31],
        [31, 6, 31, 8],
        [5, 6, 31, 8],
    ]
    assert [record.phase for record in records] == ["prefill", *["denoise"] * 4]
    assert [record.rows[0].accepted for record in records] == [0, 0, 0, 0, 4]
    assert [proposal.source for proposal in records[-1].rows[0].proposals] == ["draft", "draft", "mask", "draft"]
    assert [proposal.score for proposal in records[-1].rows[0].proposals] == pytest.approx(scores)


def test_a_threshold_fills_what_meets_it_or_one(run: Run) -> None:
    scores = [0.4, 0.9, 0.3, 0.8]
    engine = Diffusing(ScriptedModel(lambda row, position, masks: (5 + position, scores[position % 4])), 4)
    run(engine, [[3] * 4], DecodingSettings(block_size=4, threshold=0.75, max_new_tokens=4))
    assert [call.ids[0] for call in engine.model.calls][1:] == [[31] * 4, [31, 6, 31, 8], [5, 6, 31, 8]]


def test_the_surest_is_that_of_the_lowest_entropy() -> None:
    scores, free = torch.tensor([[0.1, 0.5, 2.0, 0.4]]), torch.tensor([[False, True, True, True]])
    for score, threshold, expected in (
        ("entropy", float("-inf"), [False, False, False, True]),
        ("entropy", 0.5, [False, True, False, True]),
        ("margin", float("inf"), [False, False, True, False]),
        ("margin", 0.45, [False, True, True, False]),
    ):
        limits = torch.tensor([threshold], dtype=torch.float64)
        assert choose(scores, free, limits, score).tolist() == [expected]  # type: ignore[arg-type]
    assert not choose(scores, free & False, torch.zeros(1, dtype=torch.float64), "margin").any()


def test_a_full_block_is_read_once_more(run: Run) -> None:
    engine = Diffusing(ScriptedModel([[5, 6, 7, 8, 9, 2]]), 2)
    records = run(engine, [[3, 4, 3]], DecodingSettings(block_size=2, threshold=0.5, max_new_tokens=9))
    assert [call.ids[0] for call in engine.model.calls] == [
        [3, 4],
        [3, 31],
        [3, 5, 31, 31],
        [6, 7, 31, 31],
        [8, 9, 31, 31],
    ]
    assert [call.slots[0] for call in engine.model.calls][1:3] == [[3, 4], [3, 4, 5, 6]]
    assert [record.query_tokens for record in records] == [2, 2, 4, 4, 4]
    assert [part.accepted for record in records for part in record.rows] == [0, 1, 2, 2, 1]


def test_a_row_whose_block_is_full_waits(run: Run) -> None:
    def script(row: int, position: int, masks: int) -> tuple[int, float]:
        return 5 + position, (0.9 if row == 0 else 0.2)

    engine = Diffusing(ScriptedModel(script, seconds_per_pass=1.0), 2)
    records = run(engine, [[3, 3], [4, 4]], DecodingSettings(block_size=2, threshold=0.5, max_new_tokens=4))
    assert [[(part.row, part.accepted) for part in record.rows] for record in records[1:]] == [
        *[[(0, 2), (1, 0)], [(1, 2)]] * 2
    ]
    assert [len(call.ids) for call in engine.model.calls] == [2] * 5
    assert {record.seconds for record in records} == {1.0}
