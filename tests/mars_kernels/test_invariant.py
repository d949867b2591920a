"""Invariant passes: the logits of a token have the same bits however wide, high or long the pass is that reads it."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import backends
from mars.engine.engine import ModelEngine, Rows
from mars.engine.window import Window, merge, verification_tree
from mars.metrics import output_ids
from mars_kernels.cpu.tiles import kind_of_products
from tests.mars.tiny import sizes

TOKENS = torch.randint(300, (90,), generator=torch.Generator().manual_seed(3))
AT = 70  # the position of the token that is looked at

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(kind_of_products() is None, reason="this CPU has no AVX2"),
]


def small_llama(vocab_size: int = 300, hidden_size: int = 288) -> PreTrainedModel:
    """Nine heads on three key-value heads, a vocabulary in which many tokens are nearly as probable as the best.

    All but its vocabulary fills whole tiles.
    """
    torch.manual_seed(0)
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3}
    layers = sizes(**heads, vocab_size=vocab_size, hidden_size=hidden_size, intermediate_size=1536)
    layers |= {"max_position_embeddings": 512, "initializer_range": 0.1}
    return LlamaForCausalLM(LlamaConfig(**layers, tie_word_embeddings=True)).eval()


@pytest.fixture(params=[300, 304], ids=["a vocabulary that fills no tiles", "whole tiles"])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return small_llama(request.param).bfloat16()


def chain(start: int, end: int, keep: int = 0) -> Window:
    """The tokens at these positions, in their order."""
    slots_RQ = torch.arange(start + 1, end + 1)[None]
    return Window(ids_RQ=TOKENS[None, start:end], slots_RQ=slots_RQ, extent=end + 1, keep=keep)


def opened(
    model: PreTrainedModel, *, rows: int = 1, capacity: int = 128, chunk: int = AT, graphs: bool = False
) -> Rows:
    """Rows, the first of which has read the tokens before AT in chunks."""
    cache = ModelEngine(model, stop_token_ids=frozenset(), graphs=graphs).open(rows, capacity)
    for start in range(0, AT, chunk):
        cache.forward(chain(start, min(start + chunk, AT)))
    return cache


def alone(model: PreTrainedModel) -> torch.Tensor:
    return opened(model).forward(chain(AT, AT + 1, 1))[0, 0].clone()


def in_the_prompt(model: PreTrainedModel) -> torch.Tensor:
    cache = ModelEngine(model, stop_token_ids=frozenset()).open(1, 128)
    return cache.forward(chain(0, AT + 1, 1))[0, 0]


def first_of_many(model: PreTrainedModel) -> torch.Tensor:
    return opened(model).forward(chain(AT, AT + 18, 18))[0, 0]


def tree(start: int) -> Window:
    """Four drafts behind the token at this position, and four masks behind each prefix of them."""
    depths_Q, sees_QQ = verification_tree(1, (4,) * 5)
    count = len(depths_Q)
    return Window(
        ids_RQ=TOKENS.repeat(2)[None, start : start + count],
        slots_RQ=start + 1 + torch.arange(count)[None],
        extent=start + 1 + count,
        keep=count,
        positions_RQ=start + depths_Q[None],
        sees_RQQ=sees_QQ[None],
    )


def root_of_a_tree(model: PreTrainedModel) -> torch.Tensor:
    return opened(model, chunk=33).forward(tree(AT))[0, 0]


def draft_in_a_tree(model: PreTrainedModel) -> torch.Tensor:
    cache = ModelEngine(model, stop_token_ids=frozenset()).open(1, 128)
    cache.forward(chain(0, AT - 2))
    return cache.forward(tree(AT - 2))[0, 2]


def beside_others(model: PreTrainedModel) -> torch.Tensor:
    """Seven more rows, some of them narrower, longer or shorter."""
    cache = opened(model, rows=8, capacity=200)
    others = [([row], chain(row, row + 1 + row % 3, 1)) for row in range(1, 7)]
    long = Window(ids_RQ=TOKENS[None, :9], slots_RQ=torch.arange(150, 159)[None], extent=159, keep=9)
    found = cache.forward(merge([([0], chain(AT, AT + 1, 1)), *others, ([7], long)]))
    return found[0, -1]


def in_static_shapes(model: PreTrainedModel) -> torch.Tensor:
    return opened(model, rows=3, graphs=True).forward(chain(AT, AT + 1, 1))[0, 0]


@pytest.mark.parametrize(
    "read", [in_the_prompt, first_of_many, root_of_a_tree, draft_in_a_tree, beside_others, in_static_shapes]
)
def test_a_token_has_the_same_bits(model: PreTrainedModel, read: Callable[[PreTrainedModel], torch.Tensor]) -> None:
    expected, found = alone(model), read(model)
    assert torch.equal(found, expected), (found - expected).abs().max()


@pytest.fixture(scope="module")
def tied(one_thread: None) -> tuple[ModelEngine, list[list[int]], list[list[int]]]:
    """An engine, prompts, and its text for each alone; by its small weights the best tokens are nearly tied."""
    torch.manual_seed(1)
    model = small_llama().bfloat16()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(0.05)
    engine = ModelEngine(model, stop_token_ids=frozenset(), mask_token_id=3)
    prompts = [TOKENS[start : start + 5 + start].tolist() for start in range(4, 12)]
    settings = DecodingSettings(max_new_tokens=32)
    return engine, prompts, [output_ids(DECODERS["autoregressive"](engine, [prompt], settings)) for prompt in prompts]


@pytest.mark.parametrize("layout", ["linear", "tree", "auto"])
def test_exact_decoding_writes_the_text_of_ar(tied: tuple[Any, Any, Any], layout: str) -> None:
    engine, prompts, expected = tied
    settings = DecodingSettings(max_new_tokens=32, block_size=4, layout=layout)  # type: ignore[arg-type]
    together = list(DECODERS["self_speculative"](engine, prompts, settings))
    assert [output_ids(together, row) for row in range(len(prompts))] == expected
    first = list(DECODERS["self_speculative"](engine, prompts[:1], settings))
    assert output_ids(first, 0) == expected[0]


def test_bfloat16_is_near_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden states, scores and logits are float32 here and rounded there: a twentieth of the logits' norm at most."""
    model = small_llama().bfloat16()
    for invariant in (True, False):
        monkeypatch.setattr(backends, "find_spec", lambda _, there=invariant: there)
        cache = ModelEngine(model, stop_token_ids=frozenset()).open(1, 128)
        found = cache.forward(chain(0, AT, AT))
        with torch.no_grad():
            expected = model(TOKENS[None, :AT]).logits.float()
            exact = copy.deepcopy(model).float()(TOKENS[None, :AT]).logits
        assert (found - expected).norm() < 0.05 * expected.norm()
        assert (found - exact).norm() < (expected - exact).norm()


def test_they_are_had_where_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of = partial(ModelEngine, stop_token_ids=frozenset())
    other = small_llama().bfloat16()
    other.config.hidden_act = "gelu"
    assert engine_of(small_llama().bfloat16()).invariant
    assert not any(engine_of(one).invariant for one in (small_llama(), small_llama(hidden_size=144).bfloat16(), other))
    monkeypatch.setattr(backends, "find_spec", lambda package: package != "numba" or None)
    assert not engine_of(small_llama().bfloat16()).invariant
