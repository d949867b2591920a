"""Invariant passes: the logits of a token have the same bits however wide, high or long the pass is that reads it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import engine, linear, network
from mars.engine.engine import ModelEngine, Rows
from mars.engine.linear import Linear, bfloat16_is_faster, most_probable, steady_rows
from mars.engine.tiles import Tiled, kind_of_products
from mars.engine.window import Window, merge, verification_tree
from mars.metrics import output_ids

TOKENS = torch.randint(300, (90,), generator=torch.Generator().manual_seed(3))
AT = 70  # the position of the token that is looked at

pytestmark = pytest.mark.usefixtures("one_thread")


def small_llama(vocab_size: int = 300, hidden_size: int = 144) -> PreTrainedModel:
    """Nine heads on three key-value heads, a vocabulary in which many tokens are nearly as probable as the best.

    With 304 tokens and a hidden size of 288 the weights fill whole tiles (mars/engine/tiles.py).
    """
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=1536,
        num_hidden_layers=2,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=512,
        initializer_range=0.1,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(params=["float32", "bfloat16", "bfloat16 with a large vocabulary", "bfloat16 in whole tiles"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PreTrainedModel:
    """With a large vocabulary bfloat16 has no float32 copy of it."""
    if "large" in request.param:
        monkeypatch.setattr(network, "_COPIED_WEIGHTS", 0)
    sizes = (304, 288) if "tiles" in request.param else ()
    return small_llama(*sizes).to(getattr(torch, request.param.split()[0]))


def chain(start: int, end: int, keep: int = 0) -> Window:
    """The tokens at these positions, in their order."""
    slots_RQ = torch.arange(start + 1, end + 1)[None]
    return Window(ids_RQ=TOKENS[None, start:end], slots_RQ=slots_RQ, extent=end + 1, keep=keep)


def opened(
    model: PreTrainedModel, *, rows: int = 1, capacity: int = 128, chunk: int = AT, graphs: bool = False
) -> Rows:
    """Rows, the first of which has read the tokens before AT in chunks."""
    cache = ModelEngine(model, stop_token_ids=frozenset(), invariant=True, graphs=graphs).open(rows, capacity)
    for start in range(0, AT, chunk):
        cache.forward(chain(start, min(start + chunk, AT)))
    return cache


def alone(model: PreTrainedModel) -> torch.Tensor:
    return opened(model).forward(chain(AT, AT + 1, 1))[0, 0].clone()


def in_chunks(model: PreTrainedModel) -> torch.Tensor:
    return opened(model, chunk=7).forward(chain(AT, AT + 1, 1))[0, 0]


def token_by_token(model: PreTrainedModel) -> torch.Tensor:
    return opened(model, chunk=1).forward(chain(AT, AT + 1, 1))[0, 0]


def in_the_prompt(model: PreTrainedModel) -> torch.Tensor:
    cache = ModelEngine(model, stop_token_ids=frozenset(), invariant=True).open(1, 128)
    return cache.forward(chain(0, AT + 1, 1))[0, 0]


def first_of_many(model: PreTrainedModel) -> torch.Tensor:
    return opened(model).forward(chain(AT, AT + 18, 18))[0, 0]


def last_of_many(model: PreTrainedModel) -> torch.Tensor:
    cache = ModelEngine(model, stop_token_ids=frozenset(), invariant=True).open(1, 300)
    cache.forward(chain(0, AT - 24))
    return cache.forward(chain(AT - 24, AT + 1, 25))[0, -1]


def tree(start: int) -> Window:
    depths_Q, sees_QQ = verification_tree(1, (4,) * 5)
    return Window(
        ids_RQ=TOKENS[None, start : start + len(depths_Q)].clone(),
        slots_RQ=start + 1 + torch.arange(len(depths_Q))[None],
        extent=start + 1 + len(depths_Q),
        keep=len(depths_Q),
        positions_RQ=start + depths_Q[None],
        sees_RQQ=sees_QQ[None],
    )


def root_of_a_tree(model: PreTrainedModel) -> torch.Tensor:
    short = opened(model, chunk=33)
    ids_RQ = TOKENS.repeat(2)[None, AT : AT + 25]
    window = tree(0)
    return short.forward(
        Window(
            ids_RQ=ids_RQ,
            slots_RQ=window.slots_RQ + AT,
            extent=window.extent + AT,
            keep=25,
            positions_RQ=window.positions + AT,
            sees_RQQ=window.sees_RQQ,
        )
    )[0, 0]


def draft_in_a_tree(model: PreTrainedModel) -> torch.Tensor:
    cache = ModelEngine(model, stop_token_ids=frozenset(), invariant=True).open(1, 128)
    cache.forward(chain(0, AT - 2))
    window = tree(0)
    ids_RQ = TOKENS.repeat(2)[None, AT - 2 : AT + 23]
    return cache.forward(
        Window(
            ids_RQ=ids_RQ,
            slots_RQ=window.slots_RQ + AT - 2,
            extent=window.extent + AT - 2,
            keep=25,
            positions_RQ=window.positions + AT - 2,
            sees_RQQ=window.sees_RQQ,
        )
    )[0, 2]


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
    "read",
    [
        in_chunks,
        token_by_token,
        in_the_prompt,
        first_of_many,
        last_of_many,
        root_of_a_tree,
        draft_in_a_tree,
        beside_others,
        in_static_shapes,
    ],
)
def test_a_token_has_the_same_bits(model: PreTrainedModel, read: Callable[[PreTrainedModel], torch.Tensor]) -> None:
    expected, found = alone(model), read(model)
    assert torch.equal(found, expected), (found - expected).abs().max()


def test_other_passes_are_nearly_the_same() -> None:
    """Only nearly the same."""
    cache = ModelEngine(small_llama(), stop_token_ids=frozenset(), invariant=False).open(1, 128)
    cache.forward(chain(0, AT))
    single = cache.forward(chain(AT, AT + 1, 1))[0, 0].clone()
    many = cache.forward(chain(AT, AT + 18, 18))[0, 0]
    torch.testing.assert_close(single, many, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", ["linear", "quadratic", "tree", "auto"])
def test_exact_decoding_writes_what_one_token_at_a_time_does(dtype: torch.dtype, layout: str) -> None:
    """The weights are small, so that the best tokens are nearly tied and rounding would choose between them."""
    torch.manual_seed(1)
    model = small_llama().to(dtype)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(0.05)
    engine = ModelEngine(model, stop_token_ids=frozenset(), mask_token_id=3, invariant=True)
    prompts = [TOKENS[start : start + 5 + start].tolist() for start in range(4, 12)]
    settings = DecodingSettings(max_new_tokens=40, block_size=4, layout=layout)  # type: ignore[arg-type]
    single = [list(DECODERS["autoregressive"](engine, [prompt], settings)) for prompt in prompts]
    expected = [output_ids(records, 0) for records in single]
    together = list(DECODERS["self_speculative"](engine, prompts, settings))
    assert [output_ids(together, row) for row in range(len(prompts))] == expected
    first = list(DECODERS["self_speculative"](engine, prompts[:1], settings))
    assert output_ids(first, 0) == expected[0]


def test_it_is_the_default_for_bfloat16_only() -> None:
    model = small_llama()
    assert not ModelEngine(model, stop_token_ids=frozenset()).invariant
    assert ModelEngine(model.bfloat16(), stop_token_ids=frozenset()).invariant


def test_bfloat16_is_near_the_modules() -> None:
    """Hidden states, scores and logits are float32 here and rounded there: a twentieth of the logits' norm at most."""
    model = small_llama().bfloat16()
    for invariant in (True, False):
        cache = ModelEngine(model, stop_token_ids=frozenset(), invariant=invariant).open(1, 128)
        found = cache.forward(chain(0, AT, AT))
        with torch.no_grad():
            expected = model(TOKENS[None, :AT]).logits.float()
            exact = copy.deepcopy(model).float()(TOKENS[None, :AT]).logits
        assert (found - expected).norm() < 0.05 * expected.norm()
        assert (found - exact).norm() < (expected - exact).norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compact_engine_gives_the_weights_back(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where oneDNN does not pack bfloat16, there is no second copy, and the weights stay where they are."""
    monkeypatch.setattr(network, "_COPIED_WEIGHTS", 0)
    model = small_llama().to(dtype)
    before = copy.deepcopy(model.state_dict())
    engine_of = partial(ModelEngine, stop_token_ids=frozenset(), invariant=True)
    plain = engine_of(model).open(1, 128).forward(chain(0, 9, 9)).clone()
    model = copy.deepcopy(model)
    engine = engine_of(model, compact=True)
    norms, left = 4 * 144, sum(parameter.numel() for parameter in model.model.layers.parameters())
    packs = dtype == torch.float32 or linear._onednn_knows_bfloat16()
    assert (left == norms) == packs
    assert engine._network._head._product.packed == packs  # type: ignore[union-attr]
    assert torch.equal(engine.open(1, 128).forward(chain(0, 9, 9)), plain)
    shared = engine_of(model, compact=True)
    assert shared._network._layers is engine._network._layers  # type: ignore[union-attr]
    assert all(torch.equal(engine.model.state_dict()[name], weight) for name, weight in before.items())
    recomputed = engine.open(1, 128, use_cache=False).forward(chain(0, 9, 9))
    assert (recomputed - plain).norm() < 0.05 * plain.norm()
    again = engine_of(model, compact=True)
    assert again._network._layers is engine._network._layers  # type: ignore[union-attr]


def test_the_logits_of_candidates_are_summed_to_float32() -> None:
    torch.manual_seed(0)
    weight = (torch.randn(9000 // 64 * 64, 96) * 0.2).bfloat16()
    head = linear.Head(weight, None, copy=False)
    x = torch.randn(5, 96).bfloat16()
    logits, exact = head(x), x.double() @ weight.double().T
    best = exact.topk(linear.CANDIDATES).indices
    torch.testing.assert_close(logits.gather(1, best[:, :8]), exact.gather(1, best[:, :8]).float(), atol=1e-5, rtol=0)
    torch.testing.assert_close(logits, exact.float(), atol=0.05, rtol=2**-8)
    assert torch.equal(logits.argmax(-1), exact.argmax(-1))


def test_the_most_probable_are_found_block_by_block() -> None:
    logits = torch.randn(3, 4, 64 * 80, generator=torch.Generator().manual_seed(0))
    values, tokens = most_probable(logits, 20)
    assert torch.equal(values, logits.topk(20).values)
    assert torch.equal(logits.gather(-1, tokens), values)


def test_a_product_that_is_nowhere_steady_is_padded() -> None:
    weight = torch.randn(40, 24)
    assert steady_rows(lambda weight: lambda x: x @ weight.T + len(x), weight.shape, torch.float32) == (32, 32)
    few = steady_rows(lambda _: lambda x: x.cumsum(1)[:, -1:] + (len(x) < 5), weight.shape, torch.float32)
    assert few == (5, 64)
    steady, plain = Linear(weight, steady=True), Linear(weight)
    steady._least = steady._most = 32
    x = torch.randn(70, 24)
    torch.testing.assert_close(steady(x), plain(x), atol=1e-5, rtol=1e-5)
    assert torch.equal(steady(x[5:6]), steady(x)[5:6])


@pytest.mark.parametrize("steady", [False, True])
def test_bfloat16_where_onednn_cannot_compute_it(steady: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU without AVX-512: oneDNN refuses to pack such weights there. Without AVX2 there are no kernels of ours."""
    monkeypatch.setattr(linear, "own_product", lambda weight_OI: None)
    monkeypatch.setattr(linear, "_onednn_knows_bfloat16", lambda: False)
    monkeypatch.setattr(linear, "_bounds", {})
    weight, x = torch.randn(48, 32).bfloat16(), torch.randn(9, 32).bfloat16()
    product = Linear(weight, pack=True, steady=steady)
    assert not product.packed
    torch.testing.assert_close(product(x), functional.linear(x, weight), atol=0.05, rtol=2**-7)
    assert not bfloat16_is_faster.__wrapped__(torch.get_num_threads())


def test_types_are_timed_with_the_products_that_passes_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN is hardly faster in bfloat16 on a busy CPU without AMX; kernels of our own are."""
    timed: list[type] = []
    for kind in (Linear, Tiled):
        original = kind.__call__

        def call(self: Linear, x_TI: torch.Tensor, original: Callable[..., torch.Tensor] = original) -> torch.Tensor:
            timed.append(type(self))
            return original(self, x_TI)

        monkeypatch.setattr(kind, "__call__", call)
    bfloat16_is_faster.__wrapped__(torch.get_num_threads())
    assert set(timed) == ({Linear} if kind_of_products() is None else {Linear, Tiled})
    timed.clear()
    bfloat16_is_faster.__wrapped__(torch.get_num_threads(), whole=False)
    assert set(timed) <= {Linear}, "weights that fill no tiles have no kernels of our own"


def test_it_is_refused_where_it_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of = partial(ModelEngine, stop_token_ids=frozenset())
    with pytest.raises(ValueError, match="for float32 and bfloat16, got float64"):
        engine_of(small_llama().double(), invariant=True)
    model = small_llama()
    model.config.hidden_act = "gelu"
    with pytest.raises(ValueError, match="invariant passes are for plain Qwen2 and Llama, got LlamaForCausalLM"):
        engine_of(model, invariant=True)
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="compiled by numba, which is not installed: pip install numba"):
        engine_of(small_llama(), invariant=True)
    assert not engine_of(small_llama().bfloat16()).invariant
