"""Compiled passes on a CPU, by each of the kernels that it can run: against PyTorch, alone and beside other rows."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from mars.engine import ModelEngine, network
from mars.engine.engine import Rows
from mars.engine.linear import linear_of
from mars.engine.window import Window, merge
from mars_kernels.cpu import amx, backend
from mars_kernels.cpu.backend import CpuBackend
from mars_kernels.cpu.jit import WIDENED
from mars_kernels.cpu.openmp import openmp
from mars_kernels.cpu.tiles import kind_of_products
from tests.mars.tiny import sizes

pytestmark = [
    pytest.mark.skipif(kind_of_products() is None, reason="this CPU has no AVX2"),
    pytest.mark.usefixtures("one_thread"),
]
LAYERS = {"hidden_size": 192, "intermediate_size": 320, "num_hidden_layers": 3, "num_attention_heads": 6}
SIZES = sizes(**LAYERS, vocab_size=301, max_position_embeddings=256, tie_word_embeddings=True, initializer_range=0.2)
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


def chain(start: int, ids: torch.Tensor, keep: int) -> Window:
    slots = torch.arange(start + 1, start + 1 + len(ids))
    return Window(ids_RQ=ids[None], slots_RQ=slots[None], extent=int(slots[-1]) + 1, keep=keep)


def ahead(count: int, keep: int | None = None, start: int = 70) -> Window:
    return chain(start, IDS[start : start + count], count if keep is None else keep)


def opened(model: PreTrainedModel, *, rows: int = 1, compact: bool = False) -> Rows:
    engine = ModelEngine(model, stop_token_ids=frozenset(), compact=compact)
    assert isinstance(engine._network._backend, CpuBackend)  # type: ignore[union-attr]
    found = engine.open(rows, 200)
    found.forward(chain(0, IDS[:70], 0))
    return found


@pytest.mark.usefixtures("kernels")
def test_columns_have_the_same_bits_in_company(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP grants fewer threads than asked for under OMP_THREAD_LIMIT, OMP_DYNAMIC or in another parallel region."""
    library, window = openmp(), ahead(6)
    assert library is not None
    parallel, bits = library.parallel, []
    fewer = replace(library, parallel=lambda function, data, threads, flags: parallel(function, data, 1, flags))
    for threads, given in ((1, library), (2, library), (5, library), (3, fewer)):
        torch.set_num_threads(threads)
        monkeypatch.setattr(backend, "openmp", lambda given=given: given)
        rows = opened(model)
        bits.append([rows.forward(ahead(count)).clone() for count in (5, 17, 33)])
    assert all(torch.equal(*pair) for one in bits[1:] for pair in zip(one, bits[0], strict=True))
    expected = opened(model).forward(window).clone()
    assert torch.equal(opened(model).forward(ahead(6, keep=4)), expected[:, 2:])
    crowd = opened(model, rows=5)
    others = [([row], ahead(1 + 2 * row, start=0)) for row in range(1, 5)]
    assert torch.equal(crowd.forward(merge([([0], window), *others]))[0, -6:], expected[0])
    nothing = Window(ids_RQ=IDS[None, :0], slots_RQ=torch.zeros(1, 0, dtype=torch.int64), extent=71, keep=0)
    assert crowd.forward(nothing).shape == (1, 0, SIZES["vocab_size"])


def test_a_compact_model_has_the_same_bits(model: PreTrainedModel) -> None:
    other = type(model)(model.config).bfloat16().eval()
    other.load_state_dict(model.state_dict())  # so that no layout is shared
    expected = opened(model).forward(ahead(6)).clone()
    found = opened(other, compact=True).forward(ahead(6))
    assert not linear_of(other.base_model.layers[0], "down_proj").weight.numel()
    assert torch.equal(found, expected)


def test_passes_of_one_model_may_run_at_once(model: PreTrainedModel) -> None:
    torch.set_num_threads(2)
    windows = [ahead(6), ahead(31)]
    expected = [opened(model).forward(window).clone() for window in windows]
    both = [opened(model) for _ in windows]

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
    recomputed = engine.model(IDS[None, :9]).logits.float()
    assert (recomputed - found).norm() < 0.05 * found.norm()
    assert engine_of()._network._held is engine._network._held  # type: ignore[union-attr]
