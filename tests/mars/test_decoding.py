"""Every rule of the contract between decoders and their readers, on a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.metrics import output_ids
from mars.records import ForwardPass, from_json, to_json
from mars.scripted import ScriptedModel

STOP = 2
SLIDING = DECODERS["sliding_window"]
AUTOREGRESSIVE = DECODERS["autoregressive"]
REPLY = [5, 6, 7, 8, 9, 10, 11, 12, 13, STOP]


def falling(*probabilities: float) -> Callable[[int, int, int], tuple[int, float]]:
    """A script: tokens from 5 on, with the probability of the number of masks read."""
    return lambda row, position, masks: (5 + position % 20, probabilities[masks])


def run(
    model: ScriptedModel, prompts: list[list[int]], control: Control | None = None, **options: object
) -> list[ForwardPass]:
    return list(SLIDING(model, prompts, DecodingSettings(**options), control))


def accepted(records: list[ForwardPass], row: int = 0) -> list[int]:
    return [part.accepted for record in records for part in record.rows if part.row == row and part.proposals]


@pytest.mark.parametrize("decoder", DECODERS.values())
def test_accepted_prefixes_concatenate_to_the_output(decoder: Callable[..., Iterator[ForwardPass]]) -> None:
    records = list(decoder(ScriptedModel([REPLY]), [[3, 4]], DecodingSettings(block_size=4)))
    assert output_ids(records) == REPLY
    starts = [record.rows[0].start for record in records[1:]]
    lengths = [record.rows[0].accepted for record in records[1:]]
    assert starts == [sum(lengths[:index]) for index in range(len(lengths))]


def test_acceptance_stops_at_end_of_sequence() -> None:
    records = run(ScriptedModel([[5, STOP, 6, 7]]), [[3, 4]], block_size=4, threshold=0.0)
    last = records[-1].rows[0]
    assert (last.accepted, last.finish_reason) == (2, "stop")
    assert [proposal.token_id for proposal in last.proposals] == [5, STOP, 6, 7]
    assert output_ids(records) == [5, STOP]


def test_any_stop_token_ends_a_row() -> None:
    model = ScriptedModel([[5, 9, 6]], stop_token_ids=frozenset({STOP, 9}))
    assert output_ids(run(model, [[3]])) == [5, 9]


@pytest.mark.parametrize("decoder", DECODERS.values())
def test_an_active_row_gains_at_least_one_token_in_every_pass(decoder: Callable[..., Iterator[ForwardPass]]) -> None:
    model = ScriptedModel(falling(0.2, 0.1, 0.1, 0.1, 0.1))
    settings = DecodingSettings(block_size=4, threshold=1.0, max_new_tokens=6)
    records = list(decoder(model, [[3, 4], [3]], settings))
    assert [[part.accepted for part in record.rows] for record in records] == [[0]] + [[1, 1]] * 6


@pytest.mark.parametrize("use_cache", [True, False])
def test_one_record_per_model_call(use_cache: bool) -> None:
    model = ScriptedModel([REPLY, REPLY[3:]])
    records = run(model, [[3, 4], [3]], block_size=3, use_cache=use_cache)
    assert len(records) == len(model.calls)
    assert [record.index for record in records] == list(range(len(records)))
    assert [record.phase for record in records] == ["prefill"] * use_cache + ["decode"] * (len(records) - use_cache)


def test_a_batch_gives_each_row_exactly_what_it_gets_alone() -> None:
    replies, prompts = [REPLY, REPLY[5:], REPLY[2:]], [[3, 4, 5], [6], [7, 8, 9, 10]]
    together = run(ScriptedModel(replies), prompts, block_size=3)
    for row, prompt in enumerate(prompts):
        alone = run(ScriptedModel([replies[row]]), [prompt], block_size=3)
        parts = [part for record in together for part in record.rows if part.row == row and part.proposals]
        assert [(part.start, part.proposals, part.accepted, part.finish_reason) for part in parts] == [
            (part.start, part.proposals, part.accepted, part.finish_reason)
            for record in alone
            for part in record.rows
            if part.proposals
        ]


def test_the_first_proposal_is_accepted_below_the_threshold() -> None:
    records = run(ScriptedModel(falling(0.3, 0.9, 0.3, 0.9)), [[3]], block_size=4, threshold=0.5, max_new_tokens=8)
    assert accepted(records) == [2, 2, 2, 2]


def test_acceptance_goes_from_the_left() -> None:
    """A sure proposal behind an unsure one waits."""
    records = run(ScriptedModel(falling(1.0, 0.9, 0.5, 0.9)), [[3]], block_size=4, threshold=0.8, max_new_tokens=4)
    assert accepted(records) == [2, 2]


def test_a_score_equal_to_the_threshold_passes() -> None:
    records = run(ScriptedModel(falling(1.0, 1.0, 1.0)), [[3]], block_size=3, threshold=1.0, max_new_tokens=3)
    assert accepted(records) == [3]


def test_threshold_none_is_one_token_a_pass_even_at_probability_one() -> None:
    model = ScriptedModel([REPLY])
    records = run(model, [[3, 4]], block_size=8, threshold=None)
    assert accepted(records) == [1] * len(REPLY)
    assert all(len(call.ids[0]) == 1 for call in model.calls), "one-token mode forwards no mask"


def test_for_entropy_lower_is_surer() -> None:
    model = ScriptedModel(falling(1.0, 0.999, 0.5, 0.999))
    records = run(model, [[3]], block_size=4, threshold=0.1, score="entropy", max_new_tokens=4)
    assert accepted(records) == [2, 2]


@pytest.mark.parametrize(("extra", "masks", "proposals"), [(False, 3, 4), (True, 4, 5)])
def test_the_extra_proposal_reads_the_last_mask(extra: bool, masks: int, proposals: int) -> None:
    model = ScriptedModel([REPLY])
    records = run(model, [[3]], block_size=4, extra_proposal=extra)
    assert model.calls[0].ids == [[3] + [model.mask_token_id] * masks]
    first = records[0].rows[0]
    assert [proposal.source for proposal in first.proposals] == ["clean"] + ["mask"] * (proposals - 1)
    assert first.accepted == proposals


def test_accepted_tokens_are_forwarded_once_as_real_tokens_in_their_slots() -> None:
    model = ScriptedModel([REPLY])
    run(model, [[3, 4]], block_size=3, max_new_tokens=6)
    assert [call.ids for call in model.calls] == [[[3]], [[4, 31, 31]], [[5, 6, 7, 31, 31]]]
    assert [call.slots for call in model.calls] == [[[1]], [[2, 3, 4]], [[3, 4, 5, 6, 7]]]


def test_prefill_is_a_record_that_accepts_nothing() -> None:
    prefill = run(ScriptedModel([REPLY, REPLY]), [[3, 4, 5], [6]])[0]
    assert (prefill.phase, prefill.query_tokens) == ("prefill", 2)
    assert [(part.row, part.start, part.proposals, part.accepted) for part in prefill.rows] == [(0, 0, (), 0)]


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


def test_max_new_tokens_is_never_exceeded() -> None:
    model = ScriptedModel([REPLY, REPLY])
    records = run(model, [[3], [4]], block_size=8, max_new_tokens=5)
    assert output_ids(records) == REPLY[:5]
    assert [part.finish_reason for part in records[-1].rows] == ["length", "length"]
    assert len(model.calls[-1].ids[0]) == 5, "no mask is forwarded whose proposal has no room"


def test_a_stop_token_at_the_limit_is_a_stop() -> None:
    assert run(ScriptedModel([[5, STOP]]), [[3]], max_new_tokens=2)[-1].rows[0].finish_reason == "stop"


def test_finished_rows_leave_records_and_computation() -> None:
    model = ScriptedModel([REPLY, [5, STOP], REPLY[6:]])
    records = run(model, [[3], [4], [5]], block_size=2)
    assert [[part.row for part in record.rows] for record in records] == [[0, 1, 2], [0, 2], [0], [0], [0]]
    assert [len(call.ids) for call in model.calls] == [3, 2, 1, 1, 1]
    assert output_ids(records, 2) == REPLY[6:]


def test_the_mask_token_is_never_proposed() -> None:
    records = run(ScriptedModel(lambda row, position, masks: (31, 0.9)), [[3]], block_size=3, max_new_tokens=6)
    assert 31 not in {proposal.token_id for record in records for proposal in record.rows[0].proposals}


def test_alternatives_are_the_top_k_of_every_proposal() -> None:
    model = ScriptedModel(falling(0.7, 0.7, 0.7))
    records = run(model, [[3]], block_size=3, threshold=0.5, alternatives=4, max_new_tokens=3)
    for proposal in records[0].rows[0].proposals:
        assert len(proposal.alternatives) == 4
        assert proposal.alternatives[0] == (proposal.token_id, pytest.approx(0.7))
        assert [pair[1] for pair in proposal.alternatives] == sorted(
            (pair[1] for pair in proposal.alternatives), reverse=True
        )
    assert run(model, [[3]], max_new_tokens=1)[0].rows[0].proposals[0].alternatives == ()


def test_more_alternatives_than_tokens_lists_all_that_can_be_proposed() -> None:
    model = ScriptedModel(falling(0.5), vocab_size=8, mask_token_id=7)
    pairs = run(model, [[3]], alternatives=20, max_new_tokens=1)[0].rows[0].proposals[0].alternatives
    assert {token for token, _ in pairs} == set(range(7))


def test_seconds_are_those_of_the_engine_clock() -> None:
    model = ScriptedModel([REPLY], seconds_per_pass=0.25)
    assert {record.seconds for record in run(model, [[3, 4]])} == {0.25}


def test_records_survive_json() -> None:
    records = run(ScriptedModel([REPLY, REPLY[4:]]), [[3, 4], [5]], alternatives=3)
    assert [from_json(to_json(record)) for record in records] == records


def test_a_new_threshold_acts_from_the_next_pass_on() -> None:
    model, control = ScriptedModel(falling(0.9, 0.6, 0.6, 0.6)), Control(0.5)
    settings = DecodingSettings(block_size=4, threshold=0.5, max_new_tokens=20)
    stream = SLIDING(model, [[3]], settings, control)
    seen = []
    for threshold in (0.8, None, 0.3, 0.3):
        part = next(stream).rows[0]
        seen.append((part.threshold, part.accepted, len(part.proposals)))
        control.threshold = threshold
    assert seen == [(0.5, 4, 4), (0.8, 1, 4), (None, 1, 1), (0.3, 4, 4)]


def test_autoregressive_ignores_thresholds() -> None:
    records = list(AUTOREGRESSIVE(ScriptedModel([REPLY]), [[3]], DecodingSettings(threshold=0.0), Control(0.5)))
    assert {(part.threshold, part.accepted) for record in records for part in record.rows} == {(None, 1)}


def test_autoregressive_needs_no_mask_token() -> None:
    model = ScriptedModel([REPLY], mask_token_id=None)
    assert output_ids(AUTOREGRESSIVE(model, [[3]], DecodingSettings())) == REPLY


def test_stop_before_the_first_pass_calls_nothing() -> None:
    model, control = ScriptedModel([REPLY]), Control(0.9)
    control.stop()
    assert run(model, [[3, 4]], control) == []
    assert model.calls == []


def test_stop_between_passes_ends_the_run_before_the_next_call() -> None:
    model, control = ScriptedModel([REPLY]), Control(None)
    stream = SLIDING(model, [[3, 4]], DecodingSettings(threshold=None), control)
    assert len([next(stream), next(stream)]) == 2
    control.stop()
    assert list(stream) == []
    assert len(model.calls) == 2


def test_stop_during_a_pass_cancels_the_rows_that_did_not_finish_in_it() -> None:
    control = Control(None)

    def script(row: int, position: int, masks: int) -> tuple[int, float]:
        if position == 1:
            control.stop()
        return (STOP if row == 1 and position == 1 else 5), 1.0

    model = ScriptedModel(script)
    records = list(SLIDING(model, [[3], [4]], DecodingSettings(threshold=None), control))
    assert [part.finish_reason for part in records[-1].rows] == ["cancelled", "stop"]
    assert [part.accepted for part in records[-1].rows] == [1, 1]
    assert len(records) == len(model.calls) == 2


def test_stop_during_prefill_cancels_every_row() -> None:
    class Stopping(ScriptedModel):
        def record(self, call: object) -> None:
            super().record(call)
            control.stop()

    control, model = Control(None), Stopping([REPLY, REPLY])
    records = list(SLIDING(model, [[3, 4], [3, 4]], DecodingSettings(), control))
    assert [part.finish_reason for part in records[0].rows] == ["cancelled", "cancelled"]
    assert len(records) == len(model.calls) == 1


@pytest.mark.parametrize(
    ("prompts", "options", "sentence"),
    [
        ([], {}, "prompts must hold at least one prompt"),
        ([[3], []], {"max_new_tokens": 4}, "prompt 1 is empty"),
        ([[3] * 33], {"max_new_tokens": 32}, "the prompt has 33 tokens, at most 32 fit with max_new_tokens=32"),
        ([[3]], {"max_new_tokens": 64}, "max_new_tokens must be < the context length of 64, got 64"),
        ([[3, 32]], {"max_new_tokens": 4}, "token ids must be between 0 and 31, got 32"),
        ([[-1, 3]], {"max_new_tokens": 4}, "token ids must be between 0 and 31, got -1"),
    ],
)
@pytest.mark.parametrize("decoder", DECODERS.values())
def test_bad_prompts_are_refused_at_the_call(
    decoder: Callable[..., object], prompts: list[list[int]], options: dict[str, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        decoder(ScriptedModel([REPLY], context_length=64), prompts, DecodingSettings(**options))


def test_a_prompt_that_just_fits_is_decoded() -> None:
    model = ScriptedModel(lambda row, position, masks: (5, 1.0), context_length=64)
    assert len(output_ids(run(model, [[3] * 32], max_new_tokens=32, extra_proposal=True))) == 32
    assert max(slot for call in model.calls for row in call.slots for slot in row) <= 64


def test_masks_need_a_model_that_was_trained_to_fill_them() -> None:
    with pytest.raises(ValueError, match=r"was not trained to fill masks.*mars.training mars.*published MARS"):
        SLIDING(ScriptedModel([REPLY], mask_token_id=None), [[3]], DecodingSettings())


def test_logits_that_are_not_numbers_are_refused() -> None:
    class Broken(ScriptedModel):
        def logits(self, row: int, position: int, masks_read: int) -> list[float]:
            return [float("nan")] * self.vocab_size

    with pytest.raises(ValueError, match="not numbers"):
        run(Broken([REPLY]), [[3]])
