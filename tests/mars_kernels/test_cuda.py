"""Triton's kernels against the steps in PyTorch that they take the place of: on a GPU, else in Triton's interpreter."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from mars.engine import torch_backend
from mars.engine.window import Columns

ON_GPU = torch.cuda.is_available()
triton_kernels = pytest.importorskip("mars_kernels.cuda.kernels", exc_type=ImportError)
cuda_backend = pytest.importorskip("mars_kernels.cuda.backend", exc_type=ImportError)

pytestmark = [pytest.mark.usefixtures("one_thread"), *([pytest.mark.gpu] if ON_GPU else [])]
DEVICE = "cuda" if ON_GPU else "cpu"
TYPES = [torch.float32, torch.bfloat16]


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
