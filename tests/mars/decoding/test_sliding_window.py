"""Sliding-window decoding on a scripted model: what is accepted, what is forwarded, what the records say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.records import ForwardPass
from tests.scripted import ScriptedModel

STOP = 2
SLIDING = DECODERS["sliding_window"]
REPLY = [5, 6, 7, 8, 9, 10, 11, 12, 13, STOP]


def falling(*probabilities: float) -> Callable[[int, int, int], tuple[int, float]]:
    """A script: tokens from 5 on, with the probability of the number of masks read."""
    return lambda row, position, masks: (5 + position % 20, probabilities[masks])


def run(
    model: ScriptedModel, prompts: list[list[int]], control: Control | None = None, **options: object
) -> list[ForwardPass]:
    return list(SLIDING(model, prompts, DecodingSettings(**options), control))


@pytest.mark.parametrize(("extra", "masks", "proposals"), [(False, 3, 4), (True, 4, 5)])
def test_the_extra_proposal_reads_the_last_mask(extra: bool, masks: int, proposals: int) -> None:
    model = ScriptedModel([REPLY])
    records = run(model, [[3]], block_size=4, extra_proposal=extra)
    assert model.calls[0].ids == [[3] + [model.mask_token_id] * masks]
    first = records[0].rows[0]
    assert [proposal.source for proposal in first.proposals] == ["clean"] + ["mask"] * (proposals - 1)
    assert first.accepted == proposals


def test_accepted_tokens_are_forwarded_once() -> None:
    model = ScriptedModel([REPLY])
    run(model, [[3, 4]], block_size=3, max_new_tokens=6)
    assert [call.ids for call in model.calls] == [[[3]], [[4, 31, 31]], [[5, 6, 7, 31, 31]]]
    assert [call.slots for call in model.calls] == [[[1]], [[2, 3, 4]], [[3, 4, 5, 6, 7]]]


def test_prompts_of_one_token_need_no_prefill() -> None:
    model = ScriptedModel([REPLY, REPLY])
    records = run(model, [[3], [4]])
    assert records[0].phase == "decode"
    assert len(model.calls) == len(records)


def test_query_tokens_count_masks_but_no_padding() -> None:
    model = ScriptedModel([REPLY, [*REPLY[:1], STOP]])
    records = run(model, [[3, 4, 5], [6]], block_size=4)
    assert [record.query_tokens for record in records[:3]] == [2, 8, 7]


def test_without_cache_query_tokens_count_the_prefix() -> None:
    records = run(ScriptedModel([REPLY]), [[3, 4, 5]], block_size=4, use_cache=False, max_new_tokens=8)
    assert [record.query_tokens for record in records] == [6, 10]


def test_a_new_threshold_acts_from_the_next_pass() -> None:
    model, control = ScriptedModel(falling(0.9, 0.6, 0.6, 0.6)), Control(0.5)
    settings = DecodingSettings(block_size=4, threshold=0.5, max_new_tokens=20)
    stream = SLIDING(model, [[3]], settings, control)
    seen = []
    for threshold in (0.8, None, 0.3, 0.3):
        part = next(stream).rows[0]
        seen.append((part.threshold, part.accepted, len(part.proposals)))
        control.threshold = threshold
    assert seen == [(0.5, 4, 4), (0.8, 1, 4), (None, 1, 1), (0.3, 4, 4)]
