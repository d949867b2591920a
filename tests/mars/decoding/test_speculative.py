"""Speculative decoding: drafts and who waits for them, the target's own text, thresholds, stops, refusals."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.metrics import Tally, output_ids
from mars.records import ForwardPass
from tests.readers import MASK, VOCAB, Chance
from tests.scripted import ReadingModel, ScriptedModel, StoppingModel, parts

STOPS = frozenset({2, 3})
USUAL = DecodingSettings(draft_tokens=3, block_size=4, threshold=0.6, max_new_tokens=12)
Reader = Callable[[tuple[int, ...], int], tuple[int, float]]
reader_of = partial(Chance, stop_share=0.05, scores=(0.3, 0.6, 0.9))


def model_of(reader: Reader, masks: bool = True) -> ReadingModel:
    """An engine with these answers, which has a mask token or none."""
    return ReadingModel(reader, vocab_size=VOCAB, mask_token_id=MASK if masks else None, stop_token_ids=STOPS)


def pair_of(seed: int, apart: float = 0.3, draft_masks: bool = False) -> Pair:
    """A target and a draft that agree on seven in ten answers."""
    return Pair(model_of(reader_of(seed)), model_of(reader_of(seed, apart=apart), draft_masks))


def run(pair: Pair, prompts: list[list[int]], options: DecodingSettings = USUAL) -> list[ForwardPass]:
    return list(DECODERS["speculative"](pair, prompts, options))


def calls(pair: Pair) -> int:
    """How often either model was called."""
    return len(pair.target.calls) + len(pair.draft._inner.calls)  # type: ignore[attr-defined]


def test_a_draft_that_agrees_gains_all_its_tokens() -> None:
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


def test_a_mars_draft_needs_fewer_passes() -> None:
    target, draft = ScriptedModel([[5, 6, 7, 8, 9, 2]]), ScriptedModel([[5, 6, 7, 8, 9, 2]])
    records = run(Pair(target, draft), [[3]])
    assert [record.phase for record in records] == ["draft", "verify"] * 2
    assert draft.calls[0].ids == [[3, 31, 31]]
    assert {part.threshold for record in records for part in record.rows if record.phase == "draft"} == {0.6}
    assert {part.threshold for record in records for part in record.rows if record.phase == "verify"} == {None}


def test_a_row_that_has_its_drafts_waits() -> None:
    draft = ScriptedModel(lambda row, position, masks: (5, 0.9 if row == 0 or masks == 0 else 0.3))
    target = ScriptedModel(lambda row, position, masks: (5, 0.9))
    records = run(Pair(target, draft), [[3], [4]], replace(USUAL, max_new_tokens=4))
    assert [[part.row for part in record.rows] for record in records] == [[0, 1], [1], [1], [0, 1]]
    assert [record.phase for record in records] == ["draft"] * 3 + ["verify"]
    assert [len(call.ids) for call in draft.calls] == [2, 2, 2]


@pytest.mark.parametrize("passes", [0, 1, 2, 3, 6])
def test_stop_ends_the_run_before_the_next_call(passes: int) -> None:
    pair, control = pair_of(1), Control(None)
    stream = DECODERS["speculative"](pair, [[4, 5, 6]], USUAL, control)
    for _ in range(passes):
        next(stream)
    control.stop()
    assert list(stream) == []
    assert calls(pair) == passes


def test_stop_during_a_draft_pass_is_recorded() -> None:
    control = Control(None)
    pair = Pair(ScriptedModel([[5]]), StoppingModel([[5]], control))
    stream = DECODERS["speculative"](pair, [[3]], USUAL, control)
    [record] = list(stream)
    assert (record.phase, record.rows[0].finish_reason) == ("draft", "cancelled")


@pytest.mark.parametrize(
    ("target", "draft", "options", "sentence"),
    [
        ({}, None, {}, r"needs a second, smaller checkpoint.*--draft DIR.*Pair\(target, draft\)"),
        ({}, {"vocab_size": 64}, {}, "another vocabulary than the target: 64 and 32 tokens"),
        ({}, {"context_length": 16}, {"max_new_tokens": 32}, "max_new_tokens must be < the context length of 16"),
        ({}, {}, {"prompts": []}, "prompts must hold at least one prompt"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(
    target: dict[str, object], draft: dict[str, object] | None, options: dict[str, object], sentence: str
) -> None:
    def start() -> object:
        engine = ScriptedModel([[5]], **target)
        engine = engine if draft is None else Pair(engine, ScriptedModel([[5]], **draft))
        changes = dict(options)
        return DECODERS["speculative"](engine, changes.pop("prompts", [[3]]), DecodingSettings(**changes))

    with pytest.raises(ValueError, match=sentence):
        start()


PROMPTS = [[4, 5, 6], [7], [8, 9, 10, 4, 5]]


def test_masks_that_the_target_wrote_are_tokens() -> None:
    """Without trained masks the target may sample the token that the draft takes for one."""

    def answer(tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        return (MASK, 0.9) if len(tokens) == 4 else (5, 0.9)

    target, draft = model_of(answer, masks=False), model_of(answer, masks=True)
    assert draft.mask_token_id == MASK
    pair = Pair(target, draft)
    expected = run(Pair(model_of(answer, masks=False), model_of(answer, masks=False)), PROMPTS)
    written = [output_ids(run(pair, PROMPTS), row) for row in range(len(PROMPTS))]
    assert written == [output_ids(expected, row) for row in range(len(PROMPTS))]
    assert any(MASK in text[:-1] for text in written)


def test_a_draft_never_proposes_the_targets_mask() -> None:
    draft = ScriptedModel(lambda row, position, masks: (31, 0.9), mask_token_id=None)
    records = run(Pair(ScriptedModel([[5, 6, 7, 8, 2]]), draft), [[3]])
    assert 31 not in {proposal.token_id for record in records for part in record.rows for proposal in part.proposals}
    assert output_ids(records) == [5, 6, 7, 8, 2]


@pytest.mark.parametrize("sizes", [(40, 32), (32, 40)])
def test_padded_vocabularies_may_differ_in_size(sizes: tuple[int, int]) -> None:
    reply = [5, 6, max(sizes) - 2 if sizes[0] > sizes[1] else 7, 8, 2]
    target = ScriptedModel([reply], vocab_size=sizes[0])
    drafts = [5, 6, sizes[1] - 2, 8, 2]
    draft = ScriptedModel(lambda _, position, masks: (drafts[position], 0.9), vocab_size=sizes[1], mask_token_id=None)
    records = run(Pair(target, draft, same_tokens=True), [[3]])
    assert output_ids(records) == reply
    assert max(token for call in draft.calls for row in call.ids for token in row) < sizes[1]


def test_other_decoders_see_the_target_alone() -> None:
    pair = pair_of(5)
    found = list(DECODERS["sliding_window"](pair, PROMPTS, USUAL))
    assert found == list(DECODERS["sliding_window"](model_of(reader_of(5)), PROMPTS, USUAL))
    assert calls(pair) == len(pair.target.calls)


prompts_of_tests = st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=5), min_size=1, max_size=4)


options_of_tests = st.builds(
    DecodingSettings,
    draft_tokens=st.integers(1, 5),
    block_size=st.integers(2, 5),
    threshold=st.sampled_from((None, 0.0, 0.5, 0.8)),
    max_new_tokens=st.integers(1, 12),
    temperature=st.sampled_from((0.0, 0.7, 1.5)),
    top_p=st.sampled_from((0.9, 1.0)),
    seed=st.integers(0, 99),
)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prompts=prompts_of_tests,
    options=options_of_tests,
    apart=st.sampled_from((0.0, 0.3, 1.0)),
    kinds=st.tuples(st.booleans(), st.booleans()),
    static=st.booleans(),
)
def test_the_text_is_the_targets_own(
    seed: int, prompts: list[list[int]], options: DecodingSettings, apart: float, kinds: tuple[bool, bool], static: bool
) -> None:
    target, draft = model_of(reader_of(seed), kinds[0]), model_of(reader_of(seed, apart=apart), kinds[1])
    target.static_shapes = draft.static_shapes = static
    pair = Pair(target, draft)
    records = run(pair, prompts, options)
    assert len(records) == calls(pair)
    expected = list(DECODERS["autoregressive"](model_of(reader_of(seed), kinds[0]), prompts, options))
    for row in range(len(prompts)):
        assert output_ids(records, row) == output_ids(expected, row)
        assert parts(records, row)[-1].finish_reason == parts(expected, row)[-1].finish_reason
    assert all(part.accepted == 0 for record in records for part in record.rows if record.phase == "draft")
    assert all(part.accepted >= 1 for record in records for part in record.rows if record.phase == "verify")
