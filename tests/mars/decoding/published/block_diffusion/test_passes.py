"""What each pass reads and fills, and which rows wait."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mars.config import DecodingSettings
from mars.decoding.published.block_diffusion import choose
from mars.records import ForwardPass
from mars.scripted import Diffusing, ScriptedModel

Run = Callable[..., list[ForwardPass]]


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
