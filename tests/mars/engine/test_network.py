"""The lean network against the modules whose weights it shares."""

import copy
from typing import Any

import pytest
import torch
from transformers import (
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

from mars.engine import ModelEngine
from mars.engine.linear import Linear
from mars.engine.memory import Memory
from mars.engine.network import Network, supports
from mars.engine.window import Window
from tests.mars.tiny import build, sizes

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}


def qwen2(**changes: Any) -> PreTrainedModel:
    return build(Qwen2ForCausalLM, Qwen2Config(**sizes(**changes)))


def llama(**changes: Any) -> PreTrainedModel:
    return build(LlamaForCausalLM, LlamaConfig(**sizes(**changes)))


MODELS = {
    "qwen2": lambda: qwen2(),
    "qwen2 without groups": lambda: qwen2(num_key_value_heads=4),
    "qwen2 with one key-value head": lambda: qwen2(num_key_value_heads=1),
    "qwen2 tied": lambda: qwen2(tie_word_embeddings=True),
    "llama": lambda: llama(head_dim=16),
    "llama with biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama3 scaling": lambda: llama(rope_parameters=LLAMA3),
    "yarn scaling": lambda: qwen2(rope_parameters=YARN),
}


def read(model: PreTrainedModel, ids_RQ: torch.Tensor, keep: int) -> torch.Tensor:
    memory = Memory(Network(model), len(ids_RQ), ids_RQ.shape[1] + 1)
    slots_RQ = torch.arange(1, ids_RQ.shape[1] + 1).repeat(len(ids_RQ), 1)
    with torch.inference_mode():
        return memory.forward(Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=ids_RQ.shape[1] + 1, keep=keep))


@pytest.fixture
def exact_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules' norms in the precision of the model; as they are they always round to float32."""

    def forward(self: Any, hidden: torch.Tensor) -> torch.Tensor:
        return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    for kind in (Qwen2RMSNorm, LlamaRMSNorm):
        monkeypatch.setattr(kind, "forward", forward)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("one_thread", "exact_norms")
def test_in_double_precision_nothing_but_rounding_differs(name: str) -> None:
    model = MODELS[name]().double()
    assert supports(model)
    ids_RQ = torch.randint(60, (2, 40))
    with torch.no_grad():
        expected = model(ids_RQ).logits.float()
        torch.testing.assert_close(read(model, ids_RQ, 40), expected, atol=1e-7, rtol=1e-6)
        torch.testing.assert_close(model(ids_RQ).logits.float(), expected, atol=1e-7, rtol=1e-6)


def test_changed_weights_make_another_network() -> None:
    model = qwen2()
    engine = ModelEngine(model, stop_token_ids=frozenset())
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
        assert ModelEngine(engine.model, stop_token_ids=frozenset())._network is not engine._network


def test_weights_are_held_once() -> None:
    model = qwen2()
    network = Network(model)
    attention, feed_forward = model.model.layers[1].self_attn, model.model.layers[1].mlp
    heads, _, gate_up, _ = network._backend.weights.layers[1].products
    assert attention.q_proj.weight.data_ptr() == heads._weight.data_ptr()
    for module, fused in (
        (attention.v_proj.weight, heads._weight),
        (attention.v_proj.bias, heads.bias),
        (feed_forward.up_proj.weight, gate_up._weight),
    ):
        assert module.untyped_storage().data_ptr() == fused.untyped_storage().data_ptr()


def test_positions_may_lie_beyond_the_context() -> None:
    """Masks are read past the last token that fits."""
    model, ids_RQ = qwen2(), torch.randint(60, (1, 80))
    with torch.no_grad():
        torch.testing.assert_close(read(model, ids_RQ, 1), model(ids_RQ).logits[:, -1:], atol=1e-5, rtol=1e-5)


UNSUPPORTED = {
    "dynamic rope": lambda: llama(rope_parameters=DYNAMIC),
    "another activation": lambda: qwen2(hidden_act="gelu"),
    "sliding attention": lambda: qwen2(use_sliding_window=True, sliding_window=8, max_window_layers=1),
    "another architecture": lambda: build(MistralForCausalLM, MistralConfig(**sizes(sliding_window=None))),
    "scaled logits": lambda: build(GraniteForCausalLM, GraniteConfig(**sizes(logits_scaling=8.0))),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.usefixtures("one_thread")
def test_other_models_run_on_their_modules(name: str) -> None:
    model, ids = UNSUPPORTED[name](), torch.randint(60, (1, 12))
    assert not supports(model)
    if name not in ("another activation", "another architecture", "scaled logits"):
        return
    rows = ModelEngine(model, stop_token_ids=frozenset()).open(1, 20)
    for at in (0, 8):
        slots_RQ = torch.arange(at + 1, at + 9)[None, : 12 - at]
        part = ids[:, at : at + 8]
        logits = rows.forward(Window(ids_RQ=part, slots_RQ=slots_RQ, extent=at + part.shape[1] + 1, keep=1))
        with torch.no_grad():
            expected = model(ids[:, : at + 8]).logits[:, -1:]
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("pack", "biased"), [(True, False), (True, True), (False, True)])
def test_a_product_is_the_same_by_every_way(pack: bool, biased: bool) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(300, 200), torch.randn(300) if biased else None
    linear = Linear(weight, bias, pack=pack)
    for rows in (1, 2, 7, 8, 9, 40):
        x, total = torch.randn(rows, 200), torch.randn(rows, 300)
        expected = torch.nn.functional.linear(x, weight, bias)
        torch.testing.assert_close(linear(x), expected, atol=1e-4, rtol=1e-4)
        before = copy.deepcopy(total)
        linear.add_to(total, x)
        torch.testing.assert_close(total, before + expected, atol=1e-4, rtol=1e-4)


def test_logits_of_bfloat16_weights_are_float32(tiny_model: PreTrainedModel) -> None:
    """A step of bfloat16 between logits would let the width of a pass decide between nearly equal tokens."""
    network = Network(copy.deepcopy(tiny_model).to(torch.bfloat16))
    ids = torch.arange(5, 13)[None]
    window = Window(ids_RQ=ids, slots_RQ=torch.arange(1, 9)[None], extent=9, keep=8)
    logits = Memory(network, 1, 9).forward(window)
    assert logits.dtype == torch.float32
    assert (logits != logits.bfloat16().float()).any()
