"""Relaxed verification: exact without a threshold, and with one a nearly as probable draft stays.

tests/mars/test_reference.py has the rule for each layout: no token is less probable than τ allows.
"""

import copy
import math
from typing import Any

import pytest
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ScriptedModel

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 8, 10], [11, 12, 11, 12, 11]]


class Undecided(ScriptedModel):
    """Recites 5, 6, 7, …; at position 4 masks say `near`, which the model finds 0.6 times as probable as its 9."""

    def __init__(self, near: int = 20, **options: Any):
        super().__init__((), **options)
        self._near = near

    def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
        own = 5 + position if position < 7 else 2
        if position != 4:
            return self.spread(own, 0.9)
        if masks_read:
            return self.spread(self._near, 0.9)
        logits = self.spread(own, 0.5)
        logits[self._near] = math.log(0.3)
        return logits


@pytest.mark.parametrize("layout", ["linear", "quadratic"])
@pytest.mark.parametrize("static", [False, True])
def test_a_nearly_as_probable_draft_stays(layout: str, static: bool) -> None:
    def text(threshold: float | None) -> tuple[list[int], list[ForwardPass]]:
        settings = DecodingSettings(block_size=3, max_new_tokens=12, layout=layout, threshold=threshold)
        records = list(DECODERS["relaxed"](Undecided(static_shapes=static), [[3, 4]], settings))
        return output_ids(records), records

    exact = [5, 6, 7, 8, 9, 10, 11, 2]
    assert text(None)[0] == text(0.61)[0] == exact
    found, records = text(0.59)
    assert found == [5, 6, 7, 8, 20, 10, 11, 2]
    [near] = [
        one for record in records for row in record.rows for one in row.proposals[: row.accepted] if one.token_id == 20
    ]
    assert near.score == pytest.approx(0.3 / (1 + 0.3 - 0.5 / 30)), "its own probability"
    assert {row.threshold for record in records[1:] for row in record.rows} == {0.59}


@pytest.mark.parametrize("layout", ["tree", "lookup"])
def test_company_changes_no_relaxed_text(tiny_model: PreTrainedModel, layout: str) -> None:
    """What a row has learnt of its drafts is its own. In double precision, so that rounding changes no token."""
    engine = ModelEngine(copy.deepcopy(tiny_model).double(), stop_token_ids=frozenset({7}), mask_token_id=3)
    settings = DecodingSettings(block_size=4, max_new_tokens=24, layout=layout, threshold=0.2)
    together = list(DECODERS["relaxed"](engine, PROMPTS, settings))
    for row, prompt in enumerate(PROMPTS):
        assert output_ids(together, row) == output_ids(DECODERS["relaxed"](engine, [prompt], settings))
