"""What speculative decoding writes is what the target writes alone, also where either has tokens of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.engine import ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

MASK = 11
Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]
PROMPTS = [[4, 5, 6], [7], [8, 9, 10, 4, 5]]


def test_masks_that_the_target_wrote_are_tokens(model_of: Make, run: Run, usual: DecodingSettings) -> None:
    """Without trained masks the target may sample the token that the draft takes for one."""

    def answer(tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        return (MASK, 0.9) if len(tokens) == 4 else (5, 0.9)

    for use_cache in (True, False):
        options = replace(usual, use_cache=use_cache)
        target, draft = model_of(answer, masks=False), model_of(answer, masks=True)
        assert draft.mask_token_id == MASK
        pair = Pair(target, draft)
        expected = run(Pair(model_of(answer, masks=False), model_of(answer, masks=False)), PROMPTS, options)
        written = [output_ids(run(pair, PROMPTS, options), row) for row in range(len(PROMPTS))]
        assert written == [output_ids(expected, row) for row in range(len(PROMPTS))]
        assert any(MASK in text[:-1] for text in written)


def test_a_draft_never_proposes_the_targets_mask(run: Run) -> None:
    draft = ScriptedModel(lambda row, position, masks: (31, 0.9), mask_token_id=None)
    records = run(Pair(ScriptedModel([[5, 6, 7, 8, 2]]), draft), [[3]])
    assert 31 not in {proposal.token_id for record in records for part in record.rows for proposal in part.proposals}
    assert output_ids(records) == [5, 6, 7, 8, 2]


@pytest.mark.parametrize("sizes", [(40, 32), (32, 40)])
def test_padded_vocabularies_may_differ_in_size(run: Run, sizes: tuple[int, int]) -> None:
    reply = [5, 6, max(sizes) - 2 if sizes[0] > sizes[1] else 7, 8, 2]
    target = ScriptedModel([reply], vocab_size=sizes[0])
    drafts = [5, 6, sizes[1] - 2, 8, 2]
    draft = ScriptedModel(lambda _, position, masks: (drafts[position], 0.9), vocab_size=sizes[1], mask_token_id=None)
    records = run(Pair(target, draft, same_tokens=True), [[3]])
    assert output_ids(records) == reply
    assert max(token for call in draft.calls for row in call.ids for token in row) < sizes[1]


def test_other_decoders_see_the_target_alone(
    reader_of: Make, model_of: Make, pair_of: Make, calls: Callable[[Pair], int], usual: DecodingSettings
) -> None:
    pair = pair_of(5)
    found = list(DECODERS["sliding_window"](pair, PROMPTS, usual))
    assert found == list(DECODERS["sliding_window"](model_of(reader_of(5)), PROMPTS, usual))
    assert calls(pair) == len(pair.target.calls)


def engines(model: PreTrainedModel, graphs: bool) -> tuple[ModelEngine, list[ModelEngine]]:
    """A target; the same model as a draft without and with masks."""
    target, plain, masked = (
        ModelEngine(model, stop_token_ids=frozenset(), mask_token_id=mask, graphs=graphs) for mask in (3, None, 3)
    )
    return target, [plain, masked]


@pytest.mark.parametrize("graphs", [False, True])
def test_a_real_continuation_needs_no_cache(tiny_model: PreTrainedModel, graphs: bool) -> None:
    target, drafts = engines(tiny_model, graphs)
    settings = DecodingSettings(draft_tokens=3, block_size=4, threshold=0.2, max_new_tokens=24, continuation=True)
    prompts = [[9, 10, 11, 12, 13], [14], [15] * 30]
    for draft in drafts:
        found, twin = (
            list(DECODERS["speculative"](Pair(target, draft), prompts, replace(settings, use_cache=use_cache)))
            for use_cache in (True, False)
        )
        assert [output_ids(found, row) for row in range(3)] == [output_ids(twin, row) for row in range(3)]
        alone = list(DECODERS["speculative"](Pair(target, draft), prompts[1:2], settings))
        assert output_ids(alone) == output_ids(found, 1)
