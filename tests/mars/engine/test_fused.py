"""All layers in one call against the compiled steps, their slow twin: base and adapter, alone and beside other rows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from mars.engine import amx, fused
from mars.engine.adapter import LINEARS, Adapter, LowRank, linear_of
from mars.engine.compiled import Seen
from mars.engine.engine import ModelEngine, Rows
from mars.engine.fused import Fused
from mars.engine.gated import PRODUCTS
from mars.engine.kernels import WIDENED
from mars.engine.linear import Linear
from mars.engine.network import Network
from mars.engine.tiles import Tiled, kind_of_products
from mars.engine.window import Window, merge
from mars.engine.workers import openmp

pytestmark = [
    pytest.mark.skipif(kind_of_products() is None, reason="this CPU has no AVX2"),
    pytest.mark.usefixtures("one_thread"),
]
SIZES = {
    "vocab_size": 304,
    "hidden_size": 192,
    "intermediate_size": 320,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
    "initializer_range": 0.2,
}
IDS = torch.randint(300, (200,), generator=torch.Generator().manual_seed(3))


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


NEEDS_AMX = pytest.mark.skipif(not amx.available(), reason="this CPU has no AMX")


NEEDS_BFLOAT16 = pytest.mark.skipif(kind_of_products() is WIDENED, reason="this CPU has AVX2 alone")


@pytest.fixture(
    params=[
        "bfloat16",
        pytest.param("AVX512_CORE_BF16", marks=NEEDS_AMX),
        pytest.param("AVX2", marks=NEEDS_BFLOAT16),
    ]
)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the kernels that this CPU can run: lesser ones run where the better ones are forbidden."""
    if request.param.startswith("AVX"):
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", request.param)


def adapter_for(model: PreTrainedModel, *ranks: dict[str, int]) -> Adapter:
    """An adapter with pairs of these ranks in each layer.

    By default they fill one tile, two or none; a layer has no pair here and there, and the last one has none.
    """

    def pair(layer: int, name: str, rank: int) -> LowRank:
        linear = linear_of(model.base_model.layers[layer], name)
        a_SI, b_OS = torch.randn(rank, linear.in_features), torch.randn(linear.out_features, rank)
        return LowRank((a_SI * 0.05).bfloat16(), (b_OS * 0.3).bfloat16(), 0.5)

    ranks = ranks or (dict.fromkeys(LINEARS, 16), {"q_proj": 5, "v_proj": 20, "up_proj": 7, "o_proj": 32})
    layers = tuple(
        {name: pair(layer, name, rank) for name, rank in of_layer.items()} for layer, of_layer in enumerate(ranks)
    )
    return Adapter(name="small", layers=layers, mask_embeddings=torch.randn(4, 192).bfloat16())


def chain(start: int, ids: torch.Tensor, keep: int) -> Window:
    slots = torch.arange(start + 1, start + 1 + len(ids))
    return Window(ids_RQ=ids[None], slots_RQ=slots[None], extent=int(slots[-1]) + 1, keep=keep)


def masked(start: int, real: int, masks: int, keep: int | None = None) -> Window:
    """Real tokens and then masks."""
    ids = torch.cat((IDS[start : start + real], torch.full((masks,), 304)))
    return chain(start, ids, len(ids) if keep is None else keep)


def opened(model: PreTrainedModel, adapter: Adapter | None, *, rows: int = 1) -> Rows:
    engine = ModelEngine(model, stop_token_ids=frozenset(), invariant=True, adapter=adapter)
    found = engine.open(rows, 200)
    found.forward(chain(0, IDS[:70], 0))
    return found


@pytest.fixture
def stepwise(kernels: None) -> Iterator[pytest.MonkeyPatch]:
    """Undone, passes are fused again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "_fuse", lambda self: None)
        yield patch


def test_passes_are_fused(model: PreTrainedModel, kernels: None) -> None:
    assert Network.on(model, steady=True)._fused is not None
    assert Network.on(model.float(), steady=True)._fused is None


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("keep", [0, 1, 17, 40])
def test_bits_of_the_base_are_those_of_the_steps(
    model: PreTrainedModel, kernels: None, stepwise: pytest.MonkeyPatch, threads: int, keep: int
) -> None:
    torch.set_num_threads(threads)
    windows = [chain(70, IDS[70:110], keep), chain(110, IDS[110:111], min(keep, 1)), chain(111, IDS[111:120], 9)]
    slow = opened(model, None)
    expected = [slow.forward(window).clone() for window in windows]
    stepwise.undo()
    del slow
    fast = opened(copy_of(model), None)
    for window, logits in zip(windows, expected, strict=True):
        assert torch.equal(fast.forward(window), logits)


def copy_of(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights in another model, so that no layout is shared."""
    other = type(model)(model.config).bfloat16().eval()
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize("columns", [(1, 4), (5, 12), (3, 30)], ids=["5", "17", "33"])
def test_masks_are_nearly_those_of_the_steps_and_others_the_same(
    model: PreTrainedModel, kernels: None, stepwise: pytest.MonkeyPatch, columns: tuple[int, int]
) -> None:
    """What the adapter adds is rounded once here, and twice by the steps."""
    adapter, window = adapter_for(model), masked(70, *columns)
    expected_RQV = opened(model, adapter).forward(window).clone()
    stepwise.undo()
    found_RQV = opened(copy_of(model), adapter).forward(window)
    real = columns[0]
    assert torch.equal(found_RQV[:, :real], expected_RQV[:, :real])
    off_RQV = (found_RQV - expected_RQV)[:, real:]
    assert off_RQV.norm() < 0.05 * expected_RQV[:, real:].norm()
    plain_RQV = opened(copy_of(model), None).forward(chain(70, IDS[70 : 70 + real], real))
    assert torch.equal(found_RQV[:, :real], plain_RQV), "real tokens have the base's own bits"


@pytest.mark.parametrize("masks", [4, 30], ids=["narrow", "wide"])
def test_masks_of_the_last_layer_are_those_of_the_steps_but_for_one_rounding(
    model: PreTrainedModel, kernels: None, stepwise: pytest.MonkeyPatch, masks: int
) -> None:
    adapter, window = adapter_for(model, {}, {}, {"down_proj": 20}), masked(70, 1, masks)
    expected_RQV = opened(model, adapter).forward(window).clone()
    stepwise.undo()
    off_RQV = opened(copy_of(model), adapter).forward(window) - expected_RQV
    assert off_RQV.norm() < 2**-8 * expected_RQV.norm()


@pytest.mark.parametrize("threads", [1, 2])
def test_masks_have_the_same_bits_alone_and_beside_others(model: PreTrainedModel, kernels: None, threads: int) -> None:
    torch.set_num_threads(threads)
    adapter, window = adapter_for(model), masked(70, 2, 4)
    expected_RQV = opened(model, adapter).forward(window).clone()
    assert torch.equal(opened(model, adapter).forward(masked(70, 2, 4, keep=4)), expected_RQV[:, 2:])
    crowd = opened(model, adapter, rows=5)
    others = [([row], masked(0, 1 + row, row, keep=1 + 2 * row)) for row in range(1, 5)]
    found_RQV = crowd.forward(merge([([0], window), *others]))
    assert torch.equal(found_RQV[0, -6:], expected_RQV[0])


def test_fewer_threads_than_asked_for_compute_all(
    model: PreTrainedModel, kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenMP grants fewer under OMP_THREAD_LIMIT, OMP_DYNAMIC or inside another parallel region."""
    adapter, window, library = adapter_for(model), masked(70, 2, 15), openmp()
    assert library is not None
    expected_RQV = opened(model, adapter).forward(window).clone()
    parallel = library.parallel
    fewer = replace(library, parallel=lambda function, data, threads, flags: parallel(function, data, 1, flags))
    monkeypatch.setattr(fused, "openmp", lambda: fewer)
    torch.set_num_threads(3)
    assert torch.equal(opened(model, adapter).forward(window), expected_RQV)


def test_a_pass_of_no_columns_gives_no_logits(model: PreTrainedModel, kernels: None) -> None:
    rows = opened(model, adapter_for(model))
    nothing = Window(ids_RQ=IDS[None, :0], slots_RQ=torch.zeros(1, 0, dtype=torch.int64), extent=71, keep=0)
    assert rows.forward(nothing).shape == (1, 0, 304)
    layers = Network.on(model, steady=True)._fused
    assert layers is not None
    seen = Seen(
        stores=[torch.zeros(2 * 2 * 129, 32) for _ in range(3)],
        slots=129,
        places_N=torch.zeros(0, dtype=torch.int64),
        starts_N=torch.zeros(0, dtype=torch.int64),
        mask_NK=torch.zeros(0, 64),
        rotations_N2D=torch.zeros(0, 2, 32),
    )
    queries_NO = layers.first(torch.zeros(0, 192), None, seen)
    assert queries_NO.shape == (0, 192)
    assert layers.rest(torch.zeros(0, 192), queries_NO, None, seen).shape == (0, 192)


def test_keys_and_values_that_begin_within_a_tile_are_not_fused() -> None:
    """The adapter's parts would be added to outputs of their neighbours."""
    torch.manual_seed(0)
    sizes = {**SIZES, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes, head_dim=8)).bfloat16().eval()
    adapter = replace(adapter_for(model), mask_embeddings=torch.randn(4, 64).bfloat16())
    window, found = masked(70, 2, 4), opened(model, adapter).forward(masked(70, 2, 4)).clone()
    plain = ModelEngine(copy_of(model), stop_token_ids=frozenset(), adapter=adapter).open(1, 200)
    plain.forward(chain(0, IDS[:70], 0))
    expected = plain.forward(window)
    assert (found - expected).norm() < 0.05 * expected.norm()


def test_any_number_of_threads_gives_the_same_bits(model: PreTrainedModel, kernels: None) -> None:
    adapter, bits = adapter_for(model), {}
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        rows = opened(model, adapter)
        bits[threads] = [rows.forward(masked(70, *columns)).clone() for columns in ((1, 4), (5, 12), (3, 30))]
    for threads in (2, 3, 5):
        assert all(torch.equal(*pair) for pair in zip(bits[threads], bits[1], strict=True)), threads


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_an_adapter_adds_is_exact_but_for_the_last_rounding(threads: int) -> None:
    """Whole numbers whose sums A x take up to 16 bits, in three parts of one product; every other row is a mask."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(1)
    heads, shared, size, hidden, slots = 4, 2, 16, 192, 129
    parts = [heads * size, shared * size, shared * size]

    def whole(most: int, *shape: int) -> torch.Tensor:
        return torch.randint(-most, most + 1, shape, generator=generator).bfloat16()

    norm_E, weight_OI = whole(8, hidden).float(), whole(8, sum(parts), hidden)
    products = [
        Tiled(weight_OI),
        *(Tiled(torch.zeros(shape).bfloat16()) for shape in ((192, 64), (128, 192), (192, 64))),
    ]
    pairs = {
        name: LowRank(whole(96, rank, hidden), whole(1, outputs, rank), 2.0)
        for name, rank, outputs in zip(PRODUCTS[0], (16, 5, 20), parts, strict=True)
    }
    adapter = Adapter(name="exact", layers=(pairs,), mask_embeddings=torch.zeros(1, hidden))
    plain = Fused([((norm_E, norm_E), products)], heads, shared, size, 0.0)
    adapted = plain.adapted(adapter, [parts, [192], [64, 64], [192]])
    for rows in (1, 16, 17, 33, 70):
        states_NE = torch.where(whole(1, rows, hidden) > 0, 1.0, -1.0)  # whose norm is 1
        masks_N, slots_N = torch.arange(rows) % 2 == 0, 1 + torch.arange(rows)
        seen = Seen(
            stores=[torch.zeros(2 * shared * slots, size)],
            slots=slots,
            places_N=slots_N,
            starts_N=torch.zeros(rows, dtype=torch.int64),
            mask_NK=torch.zeros(rows, slots - 1),
            rotations_N2D=torch.tensor([1.0, 0.0])[:, None].expand(rows, 2, size).contiguous(),
        )
        queries_NO = adapted.first(states_NE, masks_N, seen) * size**0.5
        keys_values_NO = seen.stores[0].view(2, shared, slots, size)[:, :, slots_N].permute(2, 0, 1, 3).flatten(1)
        x_NE = (states_NE * norm_E).double()
        inner = {name: x_NE @ pair.a_SI.double().T for name, pair in pairs.items()}
        assert all(2**8 < float(sums.abs().max()) < 2**16 for sums in inner.values())
        added_NO = torch.cat([inner[name] @ pair.b_OS.double().T * pair.scale for name, pair in pairs.items()], 1)
        real_NO = x_NE @ weight_OI.double().T + masks_N[:, None] * added_NO
        assert torch.equal(torch.cat((queries_NO, keys_values_NO), 1), real_NO.bfloat16().float()), rows


def test_a_compact_model_has_the_same_bits(model: PreTrainedModel, kernels: None) -> None:
    adapter, window, other = adapter_for(model), masked(70, 2, 4), copy_of(model)
    expected_RQV = opened(model, adapter).forward(window).clone()
    Network.on(other, steady=True, compact=True)
    assert not linear_of(other.base_model.layers[0], "down_proj").weight.numel()
    assert torch.equal(opened(other, adapter).forward(window), expected_RQV)


def test_passes_of_one_model_may_run_at_once(model: PreTrainedModel, kernels: None) -> None:
    torch.set_num_threads(2)
    adapter, windows = adapter_for(model), [masked(70, 2, 4), masked(70, 1, 30)]
    expected = [opened(model, adapter).forward(window).clone() for window in windows]
    both = [opened(model, adapter) for _ in windows]

    def repeat(number: int) -> bool:
        torch.set_num_threads(2)
        return all(torch.equal(both[number].forward(windows[number]), expected[number]) for _ in range(5))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(repeat, range(2))) == [True, True]


def test_products_of_onednn_are_right_behind_a_pass(model: PreTrainedModel, kernels: None) -> None:
    """It configured its tiles before, on each of its threads."""
    torch.set_num_threads(3)
    weight_OI, x_TI = torch.randn(240, 192).bfloat16(), torch.randn(40, 192).bfloat16()
    product = Linear(weight_OI, pack=True)
    expected_TO, rows = product(x_TI), opened(model, adapter_for(model))
    for masks in (4, 30):
        rows.forward(masked(70, 1, masks))
        assert torch.equal(product(x_TI), expected_TO)
