"""The engine: its clock, and what it says about its model."""

import copy
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from mars.checkpoint import load_checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine.engine import Clock, ModelEngine
from mars.metrics import output_ids


def test_the_clock_waits_at_both_ends() -> None:
    events: list[str] = []
    ticks = iter((10.0, 10.5))
    with Clock(now=lambda: events.append("read") or next(ticks), synchronize=lambda: events.append("wait")) as clock:
        events.append("work")
    assert events == ["wait", "read", "work", "wait", "read"]
    assert clock.seconds == 0.5


def test_the_model_is_put_in_evaluation_mode(tiny_model: PreTrainedModel) -> None:
    model = copy.deepcopy(tiny_model).train()
    engine = ModelEngine(model, stop_token_ids=frozenset({2}))
    assert not model.training
    assert (engine.mask_token_id, engine.context_length, engine.vocab_size) == (None, 384, 320)
    assert engine.device == torch.device("cpu")


def test_graphs_are_for_the_gpu_unless_asked_for(tiny_model: PreTrainedModel) -> None:
    assert not ModelEngine(tiny_model, stop_token_ids=frozenset()).static_shapes
    assert ModelEngine(tiny_model, stop_token_ids=frozenset(), graphs=True).static_shapes


def test_records_leave_gradients_and_inference_mode_alone(tiny_model: PreTrainedModel) -> None:
    engine = ModelEngine(tiny_model, stop_token_ids=frozenset(), mask_token_id=3)
    next(DECODERS["sliding_window"](engine, [[9, 10, 11]], DecodingSettings()))
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_the_library_works_without_the_kernels(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same texts in float32; passes in bfloat16, and of static shapes, are PyTorch's then."""

    def write(dtype: str) -> list[Sequence[int]]:
        engine = load_checkpoint(tiny_folder, dtype=dtype, device="cpu").engine
        settings = DecodingSettings(threshold=0.3, max_new_tokens=24)
        decoders = ("autoregressive", "sliding_window", "self_speculative")
        return [output_ids(list(DECODERS[name](engine, [[9, 10, 11, 12]], settings)), 0) for name in decoders]

    usual = write("float32")
    for name in ("mars_kernels", *(name for name in sys.modules if name.startswith("mars_kernels."))):
        monkeypatch.setitem(sys.modules, name, None)
    assert write("float32") == usual
    assert all(write("bfloat16"))
    engine = load_checkpoint(tiny_folder, dtype="bfloat16", device="cpu").engine
    assert not ModelEngine(engine.model, stop_token_ids=frozenset(), graphs=True).static_shapes
