"""Triton's kernels against the steps in PyTorch that they take the place of: on a GPU, else in Triton's interpreter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from mars.engine import backends, gated
from mars.engine.adapter import LINEARS, Adapter, HeadWeights, LowRank, linear_of
from mars.engine.backends import torch_backend
from mars.engine.gated import Pairs
from mars.engine.graphs import Runner
from mars.engine.memory import Memory
from mars.engine.network import Network
from mars.engine.window import Columns, Window

ON_GPU = torch.cuda.is_available()
triton_kernels = pytest.importorskip("mars.engine.backends.cuda.kernels", exc_type=ImportError)
cuda_backend = pytest.importorskip("mars.engine.backends.cuda.backend", exc_type=ImportError)

pytestmark = [pytest.mark.usefixtures("one_thread"), *([pytest.mark.gpu] if ON_GPU else [])]
DEVICE = "cuda" if ON_GPU else "cpu"
TYPES = [torch.float32, torch.bfloat16]
VOCABULARY = MASK = 60
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
    "qwen2 without groups": lambda: Qwen2ForCausalLM(Qwen2Config(**{**SIZES, "num_key_value_heads": 2})),
}


def model_of(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for part, parameter in model.named_parameters():
            if "norm" in part or part.endswith("bias"):  # they start as ones and zeros, which would hide them
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model.to(DEVICE, dtype)


def adapter_of(model: PreTrainedModel, *, layers: int = 2, names: tuple[str, ...] = tuple(LINEARS)) -> Adapter:
    """One that changes the first layers, all linear layers or some of them."""
    torch.manual_seed(1)
    pairs = []
    for layer in model.base_model.layers[:layers]:
        linears = {name: linear_of(layer, name) for name in names}
        pairs.append(
            {
                name: LowRank(torch.randn(3, linear.in_features) / 8, torch.randn(linear.out_features, 3) / 8, 2.0)
                for name, linear in linears.items()
            }
        )
    size = model.config.hidden_size
    head = HeadWeights(torch.randn(8, 2 * size), torch.randn(size, 8))
    return Adapter(name="tiny", layers=tuple(pairs), mask_embeddings=torch.randn(3, size) / 4, head=head)


@contextmanager
def kernels(*, used: bool) -> Iterator[None]:
    """Networks that are built meanwhile have Triton's kernels on any device, or on none; B A is joined in both."""

    chosen = cuda_backend.CudaBackend if used else torch_backend.TorchBackend
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "choose", lambda device, dtype, *, invariant: chosen)
        patch.setattr(gated, "Pairs", lambda *arguments, joined: Pairs(*arguments, joined=True))
        yield


def network_of(model: PreTrainedModel, adapter: Adapter | None, *, used: bool) -> Network:
    with kernels(used=used):
        plain = Network(copy.deepcopy(model))
        return plain if adapter is None else plain.adapted(adapter)


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Within two roundings to the type."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    within = {torch.float32: 1e-5, torch.bfloat16: 2**-7}[found.dtype]
    torch.testing.assert_close(found, expected, atol=within, rtol=within)


@pytest.mark.parametrize("size", [32, 100, 576])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_norm(size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    hidden_NE, weight_E = torch.randn(6, size, device=DEVICE).to(dtype), torch.randn(size, device=DEVICE).to(dtype)
    steps = triton_kernels.Kernels(4, 2, 8, 1e-5)
    expected = torch.rms_norm(hidden_NE, (size,), weight_E, 1e-5)
    assert_near(steps.norm(hidden_NE, None, weight_E)[1], expected)


def test_the_norm_has_the_type_of_its_weights() -> None:
    hidden_NE, weight_E = torch.randn(6, 32, device=DEVICE), torch.randn(32, device=DEVICE).bfloat16()
    expected = torch.rms_norm(hidden_NE, (32,), weight_E.float(), 1e-5).bfloat16()
    assert_near(triton_kernels.Kernels(4, 2, 8, 1e-5).norm(hidden_NE, None, weight_E)[1], expected)


@pytest.mark.parametrize("size", [48, 1500])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_silu_of_the_gate_times_up(size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    both_NO = torch.randn(6, 2 * size, device=DEVICE).mul_(8).to(dtype)
    both_NO[0, :2] = torch.tensor((-80.0, 80.0))
    gate_NF, up_NF = both_NO.float().chunk(2, 1)
    expected = (functional.silu(gate_NF) * up_NF).to(dtype)
    assert_near(triton_kernels.Kernels(4, 2, 8, 1e-5).silu(both_NO), expected)


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("picked", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("shared", "groups", "size"), [(2, 3, 12), (1, 4, 8), (4, 1, 16)])
def test_keys_and_values_are_written_and_queries_folded(
    shared: int, groups: int, size: int, dtype: torch.dtype, picked: bool, first: int
) -> None:
    torch.manual_seed(0)
    rows, wide, slots, total = 2, 3, 9, shared * (groups + 2)
    columns = Columns(rows, wide, torch.tensor([1, 2, 4, 5], device=DEVICE) if picked else None)
    count = 4 if picked else rows * wide
    cache = torch.randn(2, rows, shared, slots, size, device=DEVICE).to(dtype)
    offsets_P = torch.arange(2 * shared, device=DEVICE) * slots
    offsets_P[shared:] += (rows - 1) * shared * slots
    places_N = torch.arange(2, 2 + count, device=DEVICE)
    access = SimpleNamespace(
        columns=columns,
        rotations=torch.randn(20, 2, 1, size, device=DEVICE).to(dtype),
        places_N=places_N,
        stores=[cache.view(-1, size)],
        views=[cache[0, :, :, 1:7]],
    )
    heads_NO = torch.randn(count, total * size, device=DEVICE).to(dtype)
    positions_N = torch.randint(20, (count,), device=DEVICE)

    turned_NHD = heads_NO.view(count, total, size).float().clone()
    cosines_N1D, sines_N1D = access.rotations.float().index_select(0, positions_N).unbind(1)
    torch_backend._turn(turned_NHD.narrow(1, 0, shared * (groups + 1)), cosines_N1D, sines_N1D)
    stored = cache.view(-1, size).clone()
    places = (places_N[:, None] + offsets_P).flatten()
    stored.index_copy_(0, places, turned_NHD[:, shared * groups :].flatten(0, 1).to(dtype))
    asked_RQHD = columns.spread(turned_NHD[:, : shared * groups].to(dtype))[:, first:]
    expected = asked_RQHD.unflatten(2, (shared, groups)).permute(0, 2, 3, 1, 4).flatten(2, 3)

    steps = triton_kernels.Kernels(shared * groups, shared, size, 1e-5)
    assert_near(steps.place(heads_NO, positions_N, access, 0, first), expected)
    assert_near(cache.view(-1, size), stored)


@pytest.mark.parametrize("order", ["heads first", "queries first", "features first"])
@pytest.mark.parametrize("wide", [1, 3])
@pytest.mark.parametrize("picked", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_attention_found_is_unfolded(dtype: torch.dtype, picked: bool, wide: int, order: str) -> None:
    torch.manual_seed(0)
    rows, shared, groups, size = 6 // wide, 2, 3, 12
    columns = Columns(rows, wide, torch.tensor([0, 2, 3], device=DEVICE) if picked else None)
    found = torch.randn(rows, shared, groups * wide, size, device=DEVICE).to(dtype)
    axes = {"heads first": (0, 1, 2, 3), "queries first": (0, 2, 1, 3), "features first": (0, 1, 3, 2)}[order]
    found = found.permute(axes).contiguous().permute(axes)
    expected = columns.pick(found.unflatten(2, (groups, wide)).permute(0, 3, 1, 2, 4).flatten(2).flatten(0, 1))
    steps = triton_kernels.Kernels(shared * groups, shared, size, 1e-5)
    unfolded = steps.unfold(found, columns, dtype)
    assert torch.equal(unfolded, expected)
    is_view = unfolded.data_ptr() == found.data_ptr()
    assert is_view == (wide == 1 and not picked and order == "heads first")


def windows() -> dict[str, Window]:
    """Windows behind four tokens, whose keys and values `read` makes up."""
    ids = torch.tensor([[5, 6, MASK, MASK, MASK]], device=DEVICE)
    slots = torch.tensor([[5, 6, 7, 8, 9]], device=DEVICE)
    several = torch.tensor([[7, MASK, MASK, MASK, MASK]], device=DEVICE)
    sees = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]]).bool()
    line = Window(ids_RQ=ids, slots_RQ=slots, extent=10, keep=5, masks=3)
    padded = torch.tensor([[5, 6, MASK, MASK, MASK], [0, 0, 7, MASK, MASK]], device=DEVICE)
    padded_slots = torch.tensor([[5, 6, 7, 8, 9], [0, 0, 5, 6, 7]], device=DEVICE)
    places = torch.tensor([[4, 5, 5, 6, 7]], device=DEVICE)
    real = torch.tensor([[5], [6]], device=DEVICE)
    return {
        "one column": replace(line, ids_RQ=real, slots_RQ=real, extent=7, keep=1, masks=0),
        "line": line,
        "kept": replace(line, keep=4),
        "tree": replace(line, sees_RQQ=sees[None].to(DEVICE), positions_RQ=places, masks=None),
        "rows": replace(line, ids_RQ=torch.cat((ids, several)), slots_RQ=slots.repeat(2, 1), keep=2, masks=None),
        "padded": replace(line, ids_RQ=padded, slots_RQ=padded_slots, keep=3, masks=None),
        "second row": replace(line, first=1),
        "tokens": replace(line, ids_RQ=ids.clamp_max(MASK - 1), masks=None),
        "prompt": replace(line, ids_RQ=padded.clamp_max(MASK - 1), slots_RQ=padded_slots, keep=0, masks=0),
    }


def read(model: Network, window: Window, *, static: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The logits, what is in the cache then, and the states."""
    memory = Memory(model, 2, 20)
    memory._tensor.copy_(torch.randn(memory._tensor.shape, generator=torch.Generator().manual_seed(2)))
    with torch.inference_mode():
        logits_RWV = memory.forward(window, static=static)
    return logits_RWV, memory._tensor[:, :, :, 1:], memory.states


def assert_reads_alike(
    model: PreTrainedModel, adapter: Adapter | None, window: Window, *, static: bool, within: float = 1e-4
) -> None:
    found, expected = (read(network_of(model, adapter, used=used), window, static=static) for used in (True, False))
    real_RW = (window.slots_RQ != 0)[:, window.columns - window.keep :]
    for one, other in zip(found, expected, strict=True):
        if one is not None and other is not None:
            columns = real_RW if one.shape[:2] == real_RW.shape else ...
            torch.testing.assert_close(one[columns], other[columns], atol=within, rtol=within)
        else:
            assert one is other


NAMES = list(windows())


@pytest.mark.parametrize("window", NAMES)
@pytest.mark.parametrize("name", MODELS)
def test_a_network_with_an_adapter_reads_the_same(name: str, window: str) -> None:
    model = model_of(name)
    assert_reads_alike(model, adapter_of(model), windows()[window], static=True)


@pytest.mark.parametrize("window", ["kept", "padded", "tokens", "prompt"])
def test_columns_that_are_padding_or_no_masks_may_be_left_out(window: str) -> None:
    """On a CPU, where values are looked at."""
    model = model_of("qwen2")
    assert_reads_alike(model, adapter_of(model), windows()[window], static=False)


@pytest.mark.parametrize("window", NAMES)
@pytest.mark.parametrize("name", MODELS)
def test_a_network_without_an_adapter_reads_the_same(name: str, window: str) -> None:
    asked = windows()[window]
    tokens = replace(asked, ids_RQ=asked.ids_RQ.clamp_max(MASK - 1))
    assert_reads_alike(model_of(name), None, tokens, static=True)


@pytest.mark.parametrize("names", [("q_proj",), ("v_proj", "down_proj"), ("o_proj", "up_proj")], ids=str)
@pytest.mark.parametrize("window", ["line", "tree", "padded"])
def test_an_adapter_may_change_some_linear_layers_of_some_layers(window: str, names: tuple[str, ...]) -> None:
    model = model_of("qwen2")
    assert_reads_alike(model, adapter_of(model, layers=1, names=names), windows()[window], static=True)


@pytest.mark.parametrize("window", ["line", "tree"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_columns_that_are_no_masks_keep_the_bits_of_the_base(dtype: torch.dtype, window: str) -> None:
    """Exact decoding writes AR's texts where it multiplies as AR does."""
    model, asked = model_of("llama", dtype), windows()[window]
    tokens = replace(asked, ids_RQ=asked.ids_RQ.clamp_max(MASK - 1))
    found, expected = (
        read(network_of(model, adapter, used=True), each, static=True)[0]
        for adapter, each in ((adapter_of(model), asked), (None, tokens))
    )
    assert torch.equal(found[asked.ids_RQ < MASK], expected[asked.ids_RQ < MASK])


@pytest.mark.parametrize("window", ["one column", "line", "tree", "padded"])
@pytest.mark.parametrize("adapted", [False, True])
def test_a_network_in_bfloat16_reads_nearly_the_same(window: str, adapted: bool) -> None:
    model, asked = model_of("llama", torch.bfloat16), windows()[window]
    adapter = adapter_of(model) if adapted else None
    tokens = asked if adapted else replace(asked, ids_RQ=asked.ids_RQ.clamp_max(MASK - 1))
    real_RW = (asked.slots_RQ != 0)[:, asked.columns - asked.keep :]
    found, expected = (
        read(network_of(model, adapter, used=used), tokens, static=True)[0][real_RW] for used in (True, False)
    )
    # The interpreter cuts a number off where a GPU rounds it.
    assert (found - expected).norm() < 0.08 * expected.norm()


def test_the_backend_is_chosen_by_device_and_type() -> None:
    for device, dtype in (("cpu", torch.float32), (DEVICE, torch.float64)):
        assert backends.choose(torch.device(device), dtype, invariant=False) is torch_backend.TorchBackend
    if ON_GPU:
        assert backends.choose(torch.device("cuda"), torch.float32, invariant=False) is cuda_backend.CudaBackend


@pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@torch.inference_mode()
def test_replayed_passes_equal_those_of_torch(dtype: torch.dtype) -> None:
    """Windows at later and later slots of one shape: all but the first few are replayed from a graph."""
    model = model_of("llama", dtype)
    adapter = adapter_of(model)
    plain = Memory(network_of(model, adapter, used=False), 2, 40)
    runner = Runner(Memory(network_of(model, adapter, used=True), 2, 40), capture=True)
    shapes = {name: each for name, each in windows().items() if each.keep and not each.first}
    for _ in range(2):
        for memory in (plain, runner.memory):
            memory.clear()
        for step in range(8):
            for asked in shapes.values():
                moved = replace(
                    asked, slots_RQ=asked.slots_RQ + step * (asked.slots_RQ > 0), extent=asked.extent + step
                )
                if asked.positions_RQ is not None:
                    moved = replace(moved, positions_RQ=asked.positions_RQ + step)
                real_RW = (moved.slots_RQ != 0)[:, moved.columns - moved.keep :]
                found, expected = runner.forward(moved)[real_RW], plain.forward(moved)[real_RW]
                assert (found - expected).norm() < (1e-4 if dtype == torch.float32 else 0.08) * expected.norm()
    assert runner._replays
    assert runner._capture
