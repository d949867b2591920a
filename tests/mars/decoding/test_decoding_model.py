"""Decoders on a tiny random Qwen2 in fp32: fast paths against slow twins, token by token."""

import pytest
import torch
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.engine import Engine, ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass

PROMPTS = [[9, 10, 11, 12, 13], [14], [15] * 40, [20, 30, 40, 50, 60, 70, 80]]


def run(
    engine: ModelEngine, prompts: list[list[int]], decoder: str = "sliding_window", **options: object
) -> list[ForwardPass]:
    settings = DecodingSettings(**{"max_new_tokens": 48, **options})
    return list(DECODERS[decoder](paired(engine, decoder), prompts, settings))


def paired(engine: ModelEngine, decoder: str) -> Engine:
    """The engine that this decoder needs, perhaps as its own draft."""
    return Pair(engine, engine) if decoder == "speculative" else engine


def engine_without_end(model: PreTrainedModel) -> ModelEngine:
    """Random weights hardly write for long: nothing stops this one."""
    return ModelEngine(model, stop_token_ids=frozenset(), mask_token_id=3)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_cancelled_run_leaves_the_engine_clean(tiny_model: PreTrainedModel, decoder: str) -> None:
    engine = engine_without_end(tiny_model)
    expected = run(engine, PROMPTS, decoder, max_new_tokens=16)
    control = Control(0.3)
    settings = DecodingSettings(max_new_tokens=16)
    stream = DECODERS[decoder](paired(engine, decoder), PROMPTS, settings, control)
    next(stream), next(stream)
    control.stop()
    assert list(stream) == []
    again = run(engine, PROMPTS, decoder, max_new_tokens=16)
    for row in range(len(PROMPTS)):
        assert output_ids(again, row) == output_ids(expected, row)


def test_scores_are_those_of_a_plain_pass(tiny_model: PreTrainedModel) -> None:
    prompt, masks = PROMPTS[0], [3] * 3
    with torch.no_grad():
        logits = tiny_model(torch.tensor([prompt + masks])).logits[0, -4:]
    logits[:, 3] = -torch.inf
    expected = logits.softmax(-1).topk(5)
    row = run(engine_without_end(tiny_model), [prompt], block_size=4, alternatives=5)[1].rows[0]
    for column, proposal in enumerate(row.proposals):
        assert [token for token, _ in proposal.alternatives] == expected.indices[column].tolist()
        assert [chance for _, chance in proposal.alternatives] == pytest.approx(
            expected.values[column].tolist(), abs=1e-5
        )
        assert proposal.score == pytest.approx(proposal.alternatives[0][1], abs=1e-6)


def test_runs_on_one_engine_disturb_nobody(tiny_model: PreTrainedModel) -> None:
    engine = engine_without_end(tiny_model)
    streams = [DECODERS["sliding_window"](engine, [prompt], DecodingSettings(max_new_tokens=24)) for prompt in PROMPTS]
    mixed: list[list[ForwardPass]] = [[] for _ in PROMPTS]
    for _ in range(30):
        for records, stream in zip(mixed, streams, strict=True):
            records.extend(record for record in [next(stream, None)] if record is not None)
    for prompt, records in zip(PROMPTS, mixed, strict=True):
        assert output_ids(records) == output_ids(run(engine, [prompt], max_new_tokens=24))


def test_records_leave_gradients_and_inference_mode_alone(tiny_model: PreTrainedModel) -> None:
    stream = DECODERS["sliding_window"](engine_without_end(tiny_model), [PROMPTS[0]], DecodingSettings())
    next(stream)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
