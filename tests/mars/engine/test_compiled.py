"""The compiled steps of a pass against the same in PyTorch, for both types of weights, by one thread and by two."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from mars.engine import compiled
from mars.engine.adapter import LowRank
from mars.engine.attention import HIDDEN
from mars.engine.compiled import Compiled, CompiledPair, Seen
from mars.engine.workers import openmp

ROWS, HEADS, SHARED, SIZE, SLOTS = 2, 6, 3, 16, 129
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """So many threads share the work, however little it is."""
    before = torch.get_num_threads()
    monkeypatch.setattr(compiled, "_WORTH_SHARING", 0)
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def steps(dtype: torch.dtype) -> Compiled:
    return Compiled(HEADS, SHARED, SIZE, dtype, 1e-5)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """As close as the type allows: half a step of bfloat16, and what the order of a sum changes."""
    step = 2**-8 if found.dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(found.float(), expected, atol=step * float(expected.abs().max()), rtol=step)


@TYPES
@pytest.mark.parametrize("adds", [False, True])
def test_norm(dtype: torch.dtype, adds: bool) -> None:
    hidden, weight = torch.randn(5, 40) * 3, torch.randn(40)
    added = torch.randn(5, 40).to(dtype) if adds else None
    whole = hidden + added.float() if added is not None else hidden.clone()
    found = steps(dtype).norm(hidden, added, weight)
    assert torch.equal(hidden, whole)
    close(found, torch.rms_norm(whole, (40,), weight, 1e-5))


@TYPES
def test_silu(dtype: torch.dtype, threads: int) -> None:
    both = (torch.randn(7, 2 * 48) * 4).to(dtype)
    both[0, :4] = torch.tensor([200.0, -200.0, 87.5, -87.5])
    gate, up = both.float().chunk(2, -1)
    close(steps(dtype).silu(both), functional.silu(gate) * up)


def seen_of(columns: int) -> Seen:
    """Columns of two rows in turn, each behind 40 slots of its own."""
    rows_N, slots_N = torch.arange(columns) % ROWS, 41 + torch.arange(columns) // ROWS
    starts_N = rows_N * SHARED * SLOTS
    angles_ND = torch.rand(columns, SIZE)
    signs_D = torch.ones(SIZE).index_fill(0, torch.arange(SIZE // 2), -1)
    return Seen(
        stores=[torch.randn(2 * ROWS * SHARED * SLOTS, SIZE) for _ in range(2)],
        slots=SLOTS,
        places_N=starts_N + slots_N,
        starts_N=starts_N,
        mask_NK=(torch.arange(1, SLOTS) > slots_N[:, None]).float() * HIDDEN,
        rotations_N2D=torch.stack((angles_ND.cos(), angles_ND.sin() * signs_D), 1),
    )


def rotated(x_NHD: torch.Tensor, seen: Seen) -> torch.Tensor:
    cosines_N1D, sines_N1D = seen.rotations_N2D[:, :, None].unbind(1)
    return x_NHD * cosines_N1D + x_NHD.roll(SIZE // 2, -1) * sines_N1D


@TYPES
@pytest.mark.parametrize("columns", [1, 9])
def test_place_and_attend(dtype: torch.dtype, columns: int, threads: int) -> None:
    seen, layer, step = seen_of(columns), 1, steps(dtype)
    found_NO = torch.randn(columns, (HEADS + 2 * SHARED) * SIZE).to(dtype)
    before = seen.stores[layer].clone()
    queries_NO = step.place(found_NO, seen, layer)
    queries_NHD, keys_NGD, values_NGD = found_NO.float().view(columns, -1, SIZE).split([HEADS, SHARED, SHARED], 1)
    close(queries_NO.view(columns, HEADS, SIZE), rotated(queries_NHD, seen) * SIZE**-0.5)
    stored = seen.stores[layer].view(2, ROWS, SHARED, SLOTS, SIZE)
    rows_N = seen.starts_N // (SHARED * SLOTS)
    slots_N = seen.places_N - seen.starts_N
    close(stored[0, rows_N, :, slots_N], rotated(keys_NGD, seen))
    assert torch.equal(stored[1, rows_N, :, slots_N], values_NGD)
    assert int((seen.stores[layer] != before).any(1).sum()) == 2 * columns * SHARED, "no other slot is written"
    attended_NO = step.attend(queries_NO, seen, layer)
    keys, values = (part[rows_N, :, 1:].repeat_interleave(HEADS // SHARED, 1) for part in stored)
    expected = functional.scaled_dot_product_attention(
        queries_NO.view(columns, HEADS, 1, SIZE), keys, values, seen.mask_NK[:, None, None], scale=1.0
    )
    close(attended_NO, expected.flatten(1))


@pytest.mark.parametrize("size", [24, 64, 128])
def test_attention_of_columns_row_by_row(size: int, threads: int) -> None:
    """Columns of one row lie side by side, and more of their heads than are computed together."""
    columns = 40
    rows_N, slots_N = torch.arange(columns) * ROWS // columns, 41 + torch.arange(columns)
    store = torch.randn(2 * ROWS * SHARED * SLOTS, size)
    seen = Seen(
        stores=[store],
        slots=SLOTS,
        places_N=rows_N * SHARED * SLOTS + slots_N,
        starts_N=rows_N * SHARED * SLOTS,
        mask_NK=(torch.arange(1, SLOTS) > slots_N[:, None]).float() * HIDDEN,
        rotations_N2D=torch.zeros(columns, 2, size),
    )
    queries_NO = torch.randn(columns, HEADS * size) * size**-0.5
    found_NO = Compiled(HEADS, SHARED, size, torch.bfloat16, 1e-5).attend(queries_NO, seen, 0)
    stored = store.view(2, ROWS, SHARED, SLOTS, size)
    keys, values = (part[rows_N, :, 1:].repeat_interleave(HEADS // SHARED, 1) for part in stored)
    expected = functional.scaled_dot_product_attention(
        queries_NO.view(columns, HEADS, 1, size), keys, values, seen.mask_NK[:, None, None], scale=1.0
    )
    close(found_NO, expected.flatten(1))


def test_a_longer_extent_and_other_columns_change_no_bit(threads: int) -> None:
    seen, step = seen_of(9), steps(torch.float32)
    queries_NO = step.place(torch.randn(9, (HEADS + 2 * SHARED) * SIZE), seen, 0)
    whole = step.attend(queries_NO, seen, 0)
    short = Seen(
        **{**{name: getattr(seen, name) for name in Seen.__slots__}, "mask_NK": seen.mask_NK[:, :64].contiguous()}
    )
    assert torch.equal(step.attend(queries_NO, short, 0), whole)
    for column in range(9):
        alone = step.attend(queries_NO[column : column + 1], short.at(torch.tensor([column])), 0)
        assert torch.equal(alone[0], whole[column])


def test_padding_that_sees_nothing_gets_zeros() -> None:
    seen, step = seen_of(1), steps(torch.float32)
    queries_NO = step.place(torch.randn(1, (HEADS + 2 * SHARED) * SIZE), seen, 0)
    seen.mask_NK.fill_(HIDDEN)
    assert not step.attend(queries_NO, seen, 0).any()


@TYPES
def test_low_rank(dtype: torch.dtype, threads: int) -> None:
    """Of three layers in one product the second adds nothing; ranks need not fill what a loop reads at once."""
    pairs = [LowRank(torch.randn(5, 24).to(dtype), torch.randn(10, 5).to(dtype), 0.5), None]
    pairs.append(LowRank(torch.randn(4, 24).to(dtype), torch.randn(6, 4).to(dtype), 2.0))
    sums, x, where = torch.randn(9, 24).to(dtype), torch.randn(9, 24).to(dtype), torch.tensor([0, 3, 4, 8])
    expected = sums.float().clone()
    for pair, outputs in zip(pairs, (slice(0, 10), slice(10, 18), slice(18, 24)), strict=True):
        if pair is not None:
            scaled = (pair.b_OS * pair.scale).float()
            expected[where, outputs] += x.float()[where] @ pair.a_SI.float().T @ scaled.T
    found = sums.clone()
    CompiledPair(pairs, (10, 8, 6)).add_to(found, x, where)
    close(found, expected)
    others = torch.tensor([1, 2, 5, 6, 7])
    assert torch.equal(found[others], sums[others])


def test_torch_of_another_build_has_one_thread_do_it(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    both = torch.randn(7, 96)
    expected = steps(torch.float32).silu(both)
    monkeypatch.setattr(compiled, "openmp", lambda: None)
    assert torch.equal(steps(torch.float32).silu(both), expected)


@pytest.mark.skipif(openmp() is None, reason="torch brings another library here, and one thread does it")
def test_fewer_threads_than_asked_for_compute_all(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    library, both = openmp(), torch.randn(7, 96)
    assert library is not None
    expected, parallel = steps(torch.float32).silu(both), library.parallel
    fewer = replace(library, parallel=lambda function, data, threads, flags: parallel(function, data, 1, flags))
    monkeypatch.setattr(compiled, "openmp", lambda: fewer)
    assert torch.equal(steps(torch.float32).silu(both), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch brings another library, and one thread does it")
def test_torch_has_threads_to_share() -> None:
    found = openmp()
    assert found is not None
    assert found.number
    assert found.count
    assert found.barrier
