"""Compiled passes on a CPU, by each of the kernels that it can run: against PyTorch, alone and beside other rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from mars.engine import ModelEngine, network
from mars.engine.adapter import LINEARS, Adapter, HeadWeights, LowRank, linear_of
from mars.engine.backend import Layer, Weights
from mars.engine.engine import Rows
from mars.engine.gated import PRODUCTS
from mars.engine.window import Window, merge
from mars_kernels.cpu import amx, backend
from mars_kernels.cpu.backend import CpuBackend
from mars_kernels.cpu.jit import WIDENED
from mars_kernels.cpu.openmp import openmp
from mars_kernels.cpu.tiles import Tiled, kind_of_products
from tests.mars.tiny import sizes

pytestmark = [
    pytest.mark.skipif(kind_of_products() is None, reason="this CPU has no AVX2"),
    pytest.mark.usefixtures("one_thread"),
]
LAYERS = {"hidden_size": 192, "intermediate_size": 320, "num_hidden_layers": 3, "num_attention_heads": 6}
SIZES = sizes(**LAYERS, vocab_size=301, max_position_embeddings=256, tie_word_embeddings=True, initializer_range=0.2)
MASK = SIZES["vocab_size"]
IDS = torch.randint(300, (200,), generator=torch.Generator().manual_seed(3))
NEEDS_AMX = pytest.mark.skipif(not amx.available(), reason="this CPU has no AMX")
NEEDS_BFLOAT16 = pytest.mark.skipif(kind_of_products() is WIDENED, reason="this CPU has AVX2 alone")


@pytest.fixture(params=["Llama", "Qwen2, whose first product has a bias"])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(0)
    if request.param == "Llama":
        return LlamaForCausalLM(LlamaConfig(**SIZES)).bfloat16().eval()
    found = Qwen2ForCausalLM(Qwen2Config(**SIZES)).bfloat16().eval()
    for name, parameter in found.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return found


@pytest.fixture(
    params=["", pytest.param("AVX512_CORE_BF16", marks=NEEDS_AMX), pytest.param("AVX2", marks=NEEDS_BFLOAT16)],
    ids=["usual", "AVX512", "AVX2"],
)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lesser kernels run where the better ones are forbidden."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", request.param)


def adapter_for(model: PreTrainedModel) -> Adapter:
    """Its pairs fill one tile, two or none; a layer has no pair here and there, and the last one has none."""

    def pair(layer: int, name: str, rank: int) -> LowRank:
        linear = linear_of(model.base_model.layers[layer], name)
        a_SI, b_OS = torch.randn(rank, linear.in_features), torch.randn(linear.out_features, rank)
        return LowRank((a_SI * 0.05).bfloat16(), (b_OS * 0.3).bfloat16(), 0.5)

    ranks = dict.fromkeys(LINEARS, 16), {"q_proj": 5, "v_proj": 20, "up_proj": 7, "o_proj": 32}
    layers = tuple({name: pair(number, name, rank) for name, rank in of.items()} for number, of in enumerate(ranks))
    head = HeadWeights(torch.randn(40, 384).bfloat16(), torch.randn(192, 40).bfloat16())
    return Adapter(name="small", layers=layers, mask_embeddings=torch.randn(4, 192).bfloat16(), head=head)


def chain(start: int, ids: torch.Tensor, keep: int) -> Window:
    slots = torch.arange(start + 1, start + 1 + len(ids))
    return Window(ids_RQ=ids[None], slots_RQ=slots[None], extent=int(slots[-1]) + 1, keep=keep)


def masked(start: int, real: int, masks: int, keep: int | None = None) -> Window:
    """Real tokens and then masks."""
    ids = torch.cat((IDS[start : start + real], torch.full((masks,), MASK)))
    return chain(start, ids, len(ids) if keep is None else keep)


def opened(model: PreTrainedModel, adapter: Adapter | None, *, rows: int = 1, compact: bool = False) -> Rows:
    engine = ModelEngine(model, stop_token_ids=frozenset(), invariant=True, adapter=adapter, compact=compact)
    assert isinstance(engine._network._backend, CpuBackend)  # type: ignore[union-attr]
    found = engine.open(rows, 200)
    found.forward(chain(0, IDS[:70], 0))
    return found


def copy_of(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights in another model, so that no layout is shared."""
    other = type(model)(model.config).bfloat16().eval()
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("threads", [1, 2])
def test_columns_have_the_same_bits_in_company(model: PreTrainedModel, threads: int) -> None:
    torch.set_num_threads(threads)
    adapter, window = adapter_for(model), masked(70, 2, 4)
    expected = opened(model, adapter).forward(window).clone()
    assert torch.equal(opened(model, adapter).forward(masked(70, 2, 4, keep=4)), expected[:, 2:])
    crowd = opened(model, adapter, rows=5)
    others = [([row], masked(0, 1 + row, row, keep=1 + 2 * row)) for row in range(1, 5)]
    assert torch.equal(crowd.forward(merge([([0], window), *others]))[0, -6:], expected[0])
    plain = opened(model, None).forward(chain(70, IDS[70:72], 2))
    assert torch.equal(expected[:, :2], plain), "real tokens have the base's own bits"


@pytest.mark.usefixtures("kernels")
def test_any_number_of_threads_gives_the_same_bits(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP grants fewer than asked for under OMP_THREAD_LIMIT, OMP_DYNAMIC or inside another parallel region."""
    adapter, library, bits = adapter_for(model), openmp(), []
    assert library is not None
    parallel = library.parallel
    fewer = replace(library, parallel=lambda function, data, threads, flags: parallel(function, data, 1, flags))
    for threads, given in ((1, library), (2, library), (5, library), (3, fewer)):
        torch.set_num_threads(threads)
        monkeypatch.setattr(backend, "openmp", lambda given=given: given)
        rows = opened(model, adapter)
        bits.append([rows.forward(masked(70, *columns)).clone() for columns in ((1, 4), (5, 12), (3, 30))])
    assert all(torch.equal(*pair) for one in bits[1:] for pair in zip(one, bits[0], strict=True))


def test_a_pass_of_no_columns_gives_no_logits(model: PreTrainedModel) -> None:
    nothing = Window(ids_RQ=IDS[None, :0], slots_RQ=torch.zeros(1, 0, dtype=torch.int64), extent=71, keep=0)
    assert opened(model, adapter_for(model)).forward(nothing).shape == (1, 0, MASK)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_an_adapter_adds_is_rounded_once(threads: int) -> None:
    """Whole numbers whose sums A x take up to 16 bits, in three parts of one product; every other row is a mask."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(1)
    heads, shared, size, hidden, slots = 4, 2, 16, 192, 129
    parts = [heads * size, shared * size, shared * size]

    def whole(most: int, *shape: int) -> torch.Tensor:
        return torch.randint(-most, most + 1, shape, generator=generator).bfloat16()

    norm_E, weight_OI = whole(8, hidden), whole(8, sum(parts), hidden)
    zeros = (Tiled(torch.zeros(shape).bfloat16()) for shape in ((192, 64), (128, 192), (192, 64)))
    layer = Layer(norm_E, norm_E, [Tiled(weight_OI), *zeros])
    pairs = {
        name: LowRank(whole(96, rank, hidden), whole(1, outputs, rank), 2.0)
        for name, rank, outputs in zip(PRODUCTS[0], (16, 5, 20), parts, strict=True)
    }
    adapter = Adapter(name="exact", layers=(pairs,), mask_embeddings=torch.zeros(1, hidden))
    weights = Weights(layers=[layer], last_norm=norm_E, heads=heads, shared=shared, size=size, epsilon=0.0)
    adapted = CpuBackend(weights, torch.float32).adapted(adapter, [parts, [192], [64, 64], [192]])
    for rows in (1, 16, 17, 33, 70):
        states_NE = torch.where(whole(1, rows, hidden) > 0, 1.0, -1.0)  # whose norm is 1
        masks_N, slots_N = torch.arange(rows) % 2 == 0, 1 + torch.arange(rows)
        store, queries_NO = torch.zeros(2 * shared * slots, size), torch.empty(rows, heads * size)
        tensors = {
            "hidden": states_NE.clone(),
            "queries": queries_NO,
            "rotations": torch.tensor([1.0, 0.0])[:, None].expand(rows, 2, size).contiguous(),
            "places": slots_N,
            "starts": torch.zeros(rows, dtype=torch.int64),
            "mask": torch.zeros(rows, slots - 1),
            "masks": masks_N,
        }
        stores = np.array([store.data_ptr()])
        half = store.numel() // 2 * store.itemsize
        sizes = {"slots": slots, "half": half, "stores": stores.ctypes.data, "extent": slots - 1}
        adapted.run(range(1), tensors, sizes)
        keys_values_NO = store.view(2, shared, slots, size)[:, :, slots_N].permute(2, 0, 1, 3).flatten(1)
        x_NE = (states_NE * norm_E.float()).double()
        inner = {name: x_NE @ pair.a_SI.double().T for name, pair in pairs.items()}
        assert all(2**8 < float(sums.abs().max()) < 2**16 for sums in inner.values())
        added_NO = torch.cat([inner[name] @ pair.b_OS.double().T * pair.scale for name, pair in pairs.items()], 1)
        real_NO = x_NE @ weight_OI.double().T + masks_N[:, None] * added_NO
        found_NO = torch.cat((queries_NO * size**0.5, keys_values_NO), 1)
        assert torch.equal(found_NO, real_NO.bfloat16().float()), rows


def test_a_compact_model_has_the_same_bits(model: PreTrainedModel) -> None:
    adapter, window, other = adapter_for(model), masked(70, 2, 4), copy_of(model)
    expected = opened(model, adapter).forward(window).clone()
    found = opened(other, adapter, compact=True).forward(window)
    assert not linear_of(other.base_model.layers[0], "down_proj").weight.numel()
    assert torch.equal(found, expected)


def test_passes_of_one_model_may_run_at_once(model: PreTrainedModel) -> None:
    torch.set_num_threads(2)
    adapter, windows = adapter_for(model), [masked(70, 2, 4), masked(70, 1, 30)]
    expected = [opened(model, adapter).forward(window).clone() for window in windows]
    both = [opened(model, adapter) for _ in windows]

    def repeat(number: int) -> bool:
        torch.set_num_threads(2)
        return all(torch.equal(both[number].forward(windows[number]), expected[number]) for _ in range(5))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(repeat, range(2))) == [True, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compact_engine_gives_the_weights_back(
    model: PreTrainedModel, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_COPIED_WEIGHTS", 0)
    model = model.to(dtype)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    engine_of: Callable[..., ModelEngine] = lambda: ModelEngine(model, stop_token_ids=frozenset(), compact=True)  # noqa: E731
    engine = engine_of()
    assert not linear_of(model.base_model.layers[0], "down_proj").weight.numel()
    found = engine.open(1, 128).forward(chain(0, IDS[:9], 9)).clone()
    assert engine_of()._network._held is engine._network._held  # type: ignore[union-attr]
    assert all(torch.equal(engine.model.state_dict()[name], weight) for name, weight in before.items())
    recomputed = engine.open(1, 128, use_cache=False).forward(chain(0, IDS[:9], 9))
    assert (recomputed - found).norm() < 0.05 * found.norm()
    assert engine_of()._network._held is engine._network._held  # type: ignore[union-attr]
