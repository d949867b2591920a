"""How decoding ends before its time, and what it refuses to begin with: the same for each decoder."""

from __future__ import annotations

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.engine import Engine
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel
from mars.scripted_diffusion import Diffusing

STOP = 2
REPLY = [5, 6, 7, 8, 9, 10, 11, 12, 13, STOP]

each_decoder = pytest.mark.parametrize("decoder", DECODERS)
# Between two passes that write, these make drafts: the folders of their names have what happens.
DRAFTING = ("speculative", "block_diffusion")
each_but_drafting = pytest.mark.parametrize("decoder", [name for name in DECODERS if name not in DRAFTING])


def run(
    decoder: str, model: ScriptedModel, prompts: list[list[int]], control: Control | None = None, **options: object
) -> list[ForwardPass]:
    # In block diffusion only whole blocks of the prompts are prefilled: small ones, so that these prompts have some.
    size = 2 if decoder == "block_diffusion" else 4
    settings = DecodingSettings(**{"block_size": size, "layout": "linear", "cache_block_size": 6, **options})
    return list(DECODERS[decoder](engine_of(decoder, model, size), prompts, settings, control))


def engine_of(decoder: str, model: ScriptedModel, block_size: int) -> Engine:
    """The engine that this decoder needs, on a model that counts its calls."""
    if decoder == "block_diffusion":
        return Diffusing(model, block_size)
    return Pair(model, model) if decoder == "speculative" else model


@each_decoder
def test_stop_before_the_first_pass_calls_nothing(decoder: str) -> None:
    model, control = ScriptedModel([REPLY]), Control(0.9)
    control.stop()
    assert run(decoder, model, [[3, 4]], control) == []
    assert model.calls == []


@each_but_drafting
def test_stop_between_passes_ends_the_run_before_the_next_call(decoder: str) -> None:
    model, control = ScriptedModel([REPLY]), Control(None)
    stream = DECODERS[decoder](model, [[3, 4]], DecodingSettings(threshold=None), control)
    assert [next(stream).phase, next(stream).phase != "prefill"] == ["prefill", True]
    control.stop()
    assert list(stream) == []
    assert len(model.calls) == 2


@each_decoder
def test_stop_during_prefill_cancels_every_row(decoder: str) -> None:
    class Stopping(ScriptedModel):
        def record(self, call: object) -> None:
            super().record(call)
            control.stop()

    control, model = Control(None), Stopping([REPLY, REPLY])
    records = run(decoder, model, [[3, 4], [3, 4]], control)
    assert [part.finish_reason for part in records[0].rows] == ["cancelled", "cancelled"]
    assert len(records) == len(model.calls) == 1


@each_but_drafting
def test_stop_during_a_pass_cancels_the_rows_that_did_not_finish_in_it(decoder: str) -> None:
    class Stopping(ScriptedModel):
        def record(self, call: object) -> None:
            super().record(call)
            if len(self.calls) == 2:
                control.stop()

    control, model = Control(None), Stopping([REPLY, [5, STOP]])
    records = run(decoder, model, [[3], [4]], control, threshold=None)
    assert [part.finish_reason for part in records[-1].rows] == ["cancelled", "stop"]
    assert len(records) == len(model.calls) == 2


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
@each_decoder
def test_bad_prompts_are_refused_at_the_call(
    decoder: str, prompts: list[list[int]], options: dict[str, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        run(decoder, ScriptedModel([REPLY], context_length=64), prompts, **options)


@each_decoder
@pytest.mark.parametrize("layout", ["auto", "linear", "quadratic", "tree", "lookup"])
def test_a_prompt_that_just_fits_is_decoded(decoder: str, layout: str) -> None:
    model = ScriptedModel(lambda row, position, masks: (5, 1.0), context_length=64)
    records = run(decoder, model, [[3] * 32], max_new_tokens=32, extra_proposal=True, layout=layout)
    assert len(output_ids(records)) == 32


@pytest.mark.parametrize("decoder", ["sliding_window", "self_speculative"])
def test_masks_need_a_model_that_was_trained_to_fill_them(decoder: str) -> None:
    with pytest.raises(ValueError, match=rf"was not trained to fill masks: {decoder}.*mars.training mars.*published"):
        DECODERS[decoder](ScriptedModel([REPLY], mask_token_id=None), [[3]], DecodingSettings())


@each_decoder
def test_logits_that_are_not_numbers_are_refused(decoder: str) -> None:
    class Broken(ScriptedModel):
        def logits(self, row: int, position: int, masks_read: int) -> list[float]:
            return [float("nan")] * self.vocab_size

    with pytest.raises(ValueError, match="not numbers"):
        run(decoder, Broken([REPLY]), [[3]])
