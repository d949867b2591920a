"""Every backend against torch's, and that one against the modules: one model, the same windows for all."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from mars.engine import backends
from mars.engine.backend import TorchBackend
from mars.engine.memory import Memory, Model
from mars.engine.network import Network
from mars.engine.transformer import Transformer
from mars.engine.window import Window, merge, verification_tree
from mars_kernels.cuda.graphs import Runner
from tests.mars.tiny import build, sizes

pytestmark = pytest.mark.usefixtures("one_thread")

ON_GPU = torch.cuda.is_available()
MASK = 60
SLOTS = 65  # what invariant passes read at least
CONFIG = Qwen2Config(
    **sizes(vocab_size=61, hidden_size=96, intermediate_size=160, max_position_embeddings=128, initializer_range=0.2)
)
GPU = [pytest.mark.gpu] if ON_GPU else []
BACKENDS = pytest.mark.parametrize(
    "backend",
    [
        "torch",
        *(pytest.param(name, marks=GPU) for name in ("cuda", "cuda in bfloat16")),
        *("cpu", "cpu, AVX512", "cpu, AVX2"),
    ],
)


def model_of(dtype: torch.dtype) -> PreTrainedModel:
    return build(Qwen2ForCausalLM, CONFIG).to(dtype)


def windows() -> dict[str, Window]:
    """Windows behind four slots, whose keys and values are made up."""

    def chain(ids: list[int], start: int, keep: int) -> Window:
        slots = torch.arange(start, start + len(ids))[None]
        return Window(ids_RQ=torch.tensor([ids]), slots_RQ=slots, extent=start + len(ids), keep=keep)

    line, short = chain([5, 6, MASK, MASK, MASK], 5, 5), chain([7, MASK, MASK], 5, 3)
    depths_Q, sees_QQ = verification_tree(1, (2, 0, 3))
    tree = chain([5, 6, 7, *[MASK] * 5], 5, 8)
    return {
        "one column": chain([5], 6, 1),
        "line": line,
        "last columns": replace(line, keep=4),
        "many columns": chain([*range(5, 25), *[MASK] * 20], 5, 40),
        "second row": replace(line, first=1),
        "tree": replace(tree, sees_RQQ=sees_QQ[None], positions_RQ=4 + depths_Q[None]),
        "rows": merge([([0], replace(line, keep=2)), ([1], replace(line, keep=2))]),
        "padded rows": merge([([0], replace(line, keep=3)), ([1], short)]),
        "a prompt": replace(merge([([0], chain([5, 6, 8, 9], 5, 0)), ([1], chain([3], 5, 0))]), keep=0),
    }


def kept(window: Window, x_RQ: torch.Tensor) -> torch.Tensor:
    """Of the columns that predict, bool or any others."""
    return x_RQ[:, window.columns - window.keep :]


def read(model: Model, window: Window, *, static: bool) -> list[torch.Tensor]:
    """The logits of columns that are no padding, and what is in the cache then."""
    memory = Memory(model, 2, SLOTS)
    memory._tensor.copy_(torch.randn(memory._tensor.shape, generator=torch.Generator().manual_seed(2)))
    with torch.inference_mode():
        logits_RWV = memory.forward(window, static=static)
    real_RW = kept(window, window.slots_RQ != 0)
    return [logits_RWV[real_RW], memory._tensor[:, :, :, 1:]]


def on_device(window: Window, device: torch.device) -> Window:
    moved = {name: getattr(window, name) for name in ("ids_RQ", "slots_RQ", "positions_RQ", "sees_RQQ")}
    return replace(window, **{name: each.to(device) for name, each in moved.items() if each is not None})


def near(found: torch.Tensor, expected: torch.Tensor, model: PreTrainedModel) -> bool:
    """Triton's interpreter cuts a number off where a GPU rounds it."""
    within = 1e-4 if model.dtype == torch.float32 else 0.08
    return bool((found.float() - expected.float()).norm() <= within * expected.float().norm())


@BACKENDS
def test_a_backend_reads_what_torch_reads(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's kernels run in its interpreter where there is no GPU."""
    chosen, model = chosen_of(backend, monkeypatch)
    networks = [
        network_of(model, each, monkeypatch) for each in (chosen, Transformer if backend == "torch" else TorchBackend)
    ]
    for name, window in windows().items():
        asked = on_device(window, model.device)
        found, expected = (read(each, asked, static="cuda" in backend and each is networks[0]) for each in networks)
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape, name
            assert near(one, other, model), name


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
@pytest.mark.parametrize("backend", ["cuda", "cuda in bfloat16"])
@torch.inference_mode()
def test_replayed_passes_equal_those_of_torch(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows at later and later slots of one shape: all but the first few are replayed from a graph."""
    chosen, model = chosen_of(backend, monkeypatch)
    of_torch, of_cuda = (Memory(network_of(model, each, monkeypatch), 2, SLOTS) for each in (TorchBackend, chosen))
    runner = Runner(of_cuda, capture=True)
    shapes = [on_device(each, model.device) for each in windows().values() if each.keep and not each.first]
    for _ in range(2):
        for memory in (of_torch, of_cuda):
            memory.clear()
        for step in range(8):
            for asked in shapes:
                later = asked.slots_RQ + step * (asked.slots_RQ > 0)
                places = None if asked.positions_RQ is None else asked.positions_RQ + step
                moved = replace(asked, slots_RQ=later, positions_RQ=places, extent=asked.extent + step)
                real_RW = kept(moved, moved.slots_RQ != 0)
                assert near(runner.forward(moved)[real_RW], of_torch.forward(moved)[real_RW], model)
    assert runner._replays
    assert runner._capture


def test_the_backend_is_chosen_by_device_and_type() -> None:
    assert backends.choose(torch.device("cpu"), torch.float32, invariant=False) is TorchBackend
    if ON_GPU:
        kinds = [backends.choose(torch.device("cuda"), dtype, invariant=False) for dtype in (torch.half, torch.double)]
        assert [kind.__name__ for kind in kinds] == ["CudaBackend", "TorchBackend"]


def chosen_of(backend: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, PreTrainedModel]:
    """The backend, and the model in a type and on a device that it is for."""
    coarse = model_of(torch.bfloat16)
    if backend == "torch":
        return TorchBackend, model_of(torch.float32)
    if "cuda" in backend:
        pytest.importorskip("mars_kernels.cuda.kernels", exc_type=ImportError)
        model = coarse if "bfloat16" in backend else model_of(torch.float32)
        chosen = pytest.importorskip("mars_kernels.cuda.backend").CudaBackend
        return chosen, model.to("cuda" if ON_GPU else "cpu")
    cpu, tiles = (pytest.importorskip(f"mars_kernels.cpu.{name}") for name in ("backend", "tiles"))
    usual = tiles.kind_of_products()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", {"cpu, AVX512": "AVX512_CORE_BF16", "cpu, AVX2": "AVX2"}.get(backend, ""))
    if usual is None or (backend != "cpu" and tiles.kind_of_products() is usual):
        pytest.skip("this CPU has no such instructions, or no better ones")
    return cpu.CpuBackend, coarse


def network_of(model: PreTrainedModel, chosen: Any, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The model on this backend, or on its modules; weights are its own, as a backend may lay them out anew."""
    own = copy.deepcopy(model)
    if chosen is Transformer:
        return Transformer(own)
    monkeypatch.setattr(backends, "choose", lambda device, dtype, *, invariant: chosen)
    return Network(own, steady=chosen.invariant)
