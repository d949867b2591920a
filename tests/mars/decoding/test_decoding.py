"""The contract between decoders and their readers: what holds for each of them, on a scripted model,
how decoding ends before its time, and what it refuses to begin with.

Decoders join these tests by their entry in the table.
"""

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoders import TABLE
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.engine import Engine
from mars.metrics import GAINING, output_ids
from mars.records import ForwardPass
from tests.mars.test_reference import CALIBRATION, CASES
from tests.readers import VOCAB, Answers
from tests.scripted import ReadingModel, ScriptedModel, StoppingModel, parts

STOP, MASK = 2, 31
REPLY = [5, 6, 7, 8, 9, 10, 11, 12, 13, STOP]
PROMPTS = [[3, 4, 5], [6], [7, 8, 9, 10], [10, 3]]
each_decoder = pytest.mark.parametrize("decoder", DECODERS)
# Between two passes that write, it makes drafts.
each_but_drafting = pytest.mark.parametrize("decoder", [name for name in DECODERS if name != "speculative"])


def run(
    decoder: str, model: ScriptedModel, prompts: list[list[int]], control: Control | None = None, **options: object
) -> list[ForwardPass]:
    settings = DecodingSettings(**{"block_size": 4, "layout": "linear", "cache_block_size": 6, **options})
    return list(DECODERS[decoder](engine_of(decoder, model), prompts, settings, control))


def engine_of(decoder: str, model: ScriptedModel) -> Engine:
    """The engine that this decoder needs, on a model that counts its calls."""
    return Pair(model, model) if TABLE[decoder].draft else model


def falling(row: int, position: int, masks: int) -> tuple[int, float]:
    """A script that recites, less sure of what has read more masks."""
    return 5 + position % 20, max(0.1, 0.9 - 0.2 * masks)


@each_decoder
def test_accepted_prefixes_concatenate_to_the_output(decoder: str) -> None:
    records = run(decoder, ScriptedModel([REPLY, REPLY[3:]]), [[3, 4], [5]])
    assert [output_ids(records, row) for row in (0, 1)] == [REPLY, REPLY[3:]]
    for row in (0, 1):
        lengths = [part.accepted for part in parts(records, row)]
        assert [part.start for part in parts(records, row)] == [sum(lengths[:index]) for index in range(len(lengths))]
        reasons = [part.finish_reason for record in records for part in record.rows if part.row == row]
        assert (set(reasons[:-1]), reasons[-1]) == ({None}, "stop"), "a finished row leaves the records"


@each_decoder
def test_max_new_tokens_is_never_exceeded(decoder: str) -> None:
    for limit in (1, 2, 3, 5, 8):
        records = run(decoder, ScriptedModel([REPLY, REPLY]), [[3], [4]], max_new_tokens=limit, threshold=0.0)
        for row in (0, 1):
            assert output_ids(records, row) == REPLY[:limit]
            assert parts(records, row)[-1].finish_reason == "length"
            assert all(part.start + len(part.proposals) <= limit for part in parts(records, row))
    records = run(decoder, ScriptedModel([[5, STOP]]), [[3]], max_new_tokens=2)
    assert parts(records)[-1].finish_reason == "stop", "at the limit, too"


@each_decoder
@pytest.mark.parametrize("threshold", [None, 0.5, 1.0])
def test_an_active_row_gains_in_every_pass(decoder: str, threshold: float | None) -> None:
    records = run(decoder, ScriptedModel(falling), [[3, 4], [3], [3] * 5], threshold=threshold, max_new_tokens=14)
    for record in records:
        gains = {part.accepted >= 1 for part in record.rows}
        assert gains == {record.phase in GAINING}
        assert all(part.accepted <= len(part.proposals) for part in record.rows)


@each_decoder
def test_one_record_per_model_call(decoder: str) -> None:
    model = ScriptedModel([REPLY, REPLY[3:]], seconds_per_pass=0.25)
    records = run(decoder, model, [[3, 4], [3]])
    assert len(records) == len(model.calls)
    assert [record.index for record in records] == list(range(len(records)))
    assert {record.seconds for record in records} == {0.25}
    assert records[0].phase == "prefill"
    assert all(0 < record.query_tokens for record in records)


def test_blocks_are_committed_when_all_reached_their_end() -> None:
    model = ReadingModel(Answers(seed=1, foresight=5, stops=1), vocab_size=VOCAB, mask_token_id=VOCAB - 1)
    records = run("block_cached", model, PROMPTS, threshold=0.5, max_new_tokens=24)
    end, written = 6, dict.fromkeys(range(len(PROMPTS)), 0)
    for record in records[1:]:
        at_work = {row: count for row, count in written.items() if record.phase == "commit" or count < end}
        assert {part.row for part in record.rows} == set(at_work)
        if record.phase == "commit":
            assert set(at_work.values()) == {end}
            end += 6
        for part in record.rows:
            assert part.start + len(part.proposals) <= end
            written[part.row] += part.accepted
            if part.finish_reason:
                del written[part.row]
    assert end > 6


@each_decoder
def test_alternatives_are_the_top_k_of_every_proposal(decoder: str) -> None:
    records = run(decoder, ScriptedModel(lambda *_: (5, 0.7)), [[3]], alternatives=4, max_new_tokens=9)
    for proposal in (proposal for part in parts(records) for proposal in part.proposals):
        assert len(proposal.alternatives) == 4
        assert proposal.alternatives[0] == (proposal.token_id, pytest.approx(0.7))
        chances = [chance for _, chance in proposal.alternatives]
        assert chances == sorted(chances, reverse=True)
    plain = run(decoder, ScriptedModel([REPLY]), [[3]], max_new_tokens=3)
    assert {proposal.alternatives for part in parts(plain) for proposal in part.proposals} == {()}
    few = ScriptedModel(lambda *_: (5, 0.5), vocab_size=8, mask_token_id=7)
    every = parts(run(decoder, few, [[3]], alternatives=20, max_new_tokens=1))[0].proposals[0].alternatives
    assert {token for token, _ in every} == set(range(7))


def test_autoregressive_ignores_thresholds_and_needs_no_mask_token() -> None:
    model = ScriptedModel([REPLY], mask_token_id=None)
    records = run("autoregressive", model, [[3]], Control(0.5), threshold=0.0)
    assert {(part.threshold, part.accepted) for part in parts(records)} == {(None, 1)}
    assert output_ids(records) == REPLY


@each_decoder
def test_stop_before_the_first_pass_calls_nothing(decoder: str) -> None:
    model, control = ScriptedModel([REPLY]), Control(0.9)
    control.stop()
    assert run(decoder, model, [[3, 4]], control) == []
    assert model.calls == []


@each_but_drafting
def test_stop_between_passes_ends_the_run(decoder: str) -> None:
    model, control = ScriptedModel([REPLY]), Control(None)
    stream = DECODERS[decoder](model, [[3, 4]], DecodingSettings(threshold=None), control)
    assert [next(stream).phase, next(stream).phase != "prefill"] == ["prefill", True]
    control.stop()
    assert list(stream) == []
    assert len(model.calls) == 2


@each_decoder
def test_stop_during_prefill_cancels_every_row(decoder: str) -> None:
    control = Control(None)
    model = StoppingModel([REPLY, REPLY], control)
    records = run(decoder, model, [[3, 4], [3, 4]], control)
    assert [part.finish_reason for part in records[0].rows] == ["cancelled", "cancelled"]
    assert len(records) == len(model.calls) == 1


@each_but_drafting
def test_stop_during_a_pass_cancels_unfinished_rows(decoder: str) -> None:
    control = Control(None)
    model = StoppingModel([REPLY, [5, STOP]], control, call=2)
    records = run(decoder, model, [[3], [4]], control, threshold=None)
    assert [part.finish_reason for part in records[-1].rows] == ["cancelled", "stop"]
    assert len(records) == len(model.calls) == 2


BAD_PROMPTS: list[tuple[list[list[int]], dict[str, int], str]] = [
    ([], {}, "prompts must hold at least one prompt"),
    ([[3], []], {"max_new_tokens": 4}, "prompt 1 is empty"),
    ([[3] * 33], {"max_new_tokens": 32}, "the prompt has 33 tokens, at most 32 fit with max_new_tokens=32"),
    ([[3]], {"max_new_tokens": 64}, "max_new_tokens must be < the context length of 64, got 64"),
    ([[3, 32]], {"max_new_tokens": 4}, "token ids must be between 0 and 31, got 32"),
    ([[-1, 3]], {"max_new_tokens": 4}, "token ids must be between 0 and 31, got -1"),
    ([[3]], {"use_cache": False}, "use_cache must be true: nothing is written without a cache any more"),
]


@each_decoder
def test_bad_prompts_are_refused_at_the_call(decoder: str) -> None:
    for prompts, options, sentence in BAD_PROMPTS:
        with pytest.raises(ValueError, match=sentence):
            run(decoder, ScriptedModel([REPLY], context_length=64), prompts, **options)


@pytest.mark.parametrize("case", CASES)
def test_a_prompt_that_just_fits_is_decoded(case: str) -> None:
    model = ScriptedModel(lambda row, position, masks: (5, 1.0), context_length=64, calibration=CALIBRATION)
    settings = {"max_new_tokens": 32, "extra_proposal": True, **CASES[case]}
    assert len(output_ids(run(case.partition(",")[0], model, [[3] * 32], **settings))) == 32


@pytest.mark.parametrize("decoder", ["sliding_window", "self_speculative"])
def test_masks_need_a_model_that_fills_them(decoder: str) -> None:
    with pytest.raises(ValueError, match=rf"was not trained to fill masks: {decoder}.*mars.training mars.*published"):
        DECODERS[decoder](ScriptedModel([REPLY], mask_token_id=None), [[3]], DecodingSettings())


@each_decoder
def test_logits_that_are_not_numbers_are_refused(decoder: str) -> None:
    class Broken(ScriptedModel):
        def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
            return [float("nan")] * self.vocab_size

    with pytest.raises(ValueError, match="not numbers"):
        run(decoder, Broken([REPLY]), [[3]])
