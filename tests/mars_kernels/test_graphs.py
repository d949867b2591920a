"""Passes of static shapes against plain ones. Capture itself needs a GPU; the rest does not."""

import copy
import gc
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from transformers import PreTrainedModel

from mars.decoding.pool import PREFILL_CHUNK
from mars.engine import ModelEngine
from mars.engine.memory import Memories, Memory, rounded_extent
from mars.engine.network import Network
from mars.engine.window import Window
from mars_kernels.cuda import graphs as of_graphs
from mars_kernels.cuda.graphs import Runner, bucket_of
from tests.mars_kernels.capture import as_in_captures

SEEN = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)[None]
TEXT = [[random.Random(row).randrange(4, 300) for _ in range(150)] for row in range(3)]


@pytest.fixture
def network(tiny_model: PreTrainedModel) -> Network:
    return Network(copy.deepcopy(tiny_model).double())


def window(starts: list[int], columns: int, keep: int) -> Window:
    """Rows that read their texts on from `starts`; a row that starts below 0 is padded."""
    slots = torch.tensor([[max(start + 1 + step, 0) for step in range(columns)] for start in starts])
    ids = torch.tensor(TEXT)[: len(starts)].gather(1, (slots - 1).clamp_min(0))
    return Window(ids_RQ=ids, slots_RQ=slots, extent=max(starts) + columns + 1, keep=keep)


def tree(starts: list[int]) -> Window:
    """A token and two alternatives behind it."""
    plain = window(starts, 3, 3)
    positions = plain.positions - torch.tensor([0, 0, 1])
    return replace(plain, positions_RQ=positions, sees_RQQ=SEEN)


PASSES = [
    window([-2, -3, -1], 9, 0),
    window([7, 6, 8], 4, 1),
    window([9, 8, 10], 4, 1),
    tree([12, 11, 13]),
    window([14, 13], 5, 2),
    replace(window([15], 2, 2), first=2),
    window([13, 14, 15], 70, 3),
    window([80, 80, 80], 4, 4),
    tree([60, 90]),
    window([40], 1, 1),
    window([64, 62], 20, 0),
    replace(window([84], 30, 0), first=1),
    replace(window([114], 5, 0), first=1),
    replace(tree([120, 121, 119]), keep=0),
    window([119, 119, 123], 4, 2),
]


@torch.inference_mode()
def test_passes_of_static_shapes_equal_plain_ones(network: Network) -> None:
    """Buckets are used again by fewer rows, and rows that lie beyond a window are read on later."""
    plain, runner = Memory(network, 3, 160), Runner(Memory(network, 3, 160), capture=False)
    for each in PASSES:
        torch.testing.assert_close(runner.forward(each), plain.forward(each), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(runner.memory._tensor[:, :, :, 1:], plain._tensor[:, :, :, 1:])


def test_windows_that_get_no_bucket() -> None:
    asked = window([7], 4, 1)
    several = replace(window([7, 6], 4, 0), first=1)
    for other in (replace(asked, first=1), window([-200], 300, 1), several, read(1, 513), read(17, 512), read(33, 256)):
        assert bucket_of(other, rows=64, slots=400) is None


def read(rows: int, columns: int) -> Window:
    """Rows that read so many tokens and predict none."""
    slots = torch.arange(1, columns + 1).expand(rows, -1)
    return Window(ids_RQ=slots, slots_RQ=slots, extent=columns + 1, keep=0)


def test_columns_and_extents_are_rounded_up() -> None:
    asked = [1, 16, 17, 32, 100, 257, PREFILL_CHUNK]
    found = [bucket_of(read(3, columns), rows=8, slots=700) for columns in asked]
    assert [bucket.columns for bucket in found if bucket] == [16, 16, 32, 32, 128, 512, 512]
    assert {bucket.rows for bucket in found if bucket} == {4}
    assert bucket_of(read(16, 512), rows=16, slots=700)
    assert [rounded_extent(extent) for extent in (1, 257, 258, 4097, 4098)] == [257, 257, 513, 4097, 4609]
    assert all(extent <= rounded_extent(extent) <= 1.125 * extent + 256 for extent in range(1, 5000))


def test_a_memory_is_used_again_and_is_empty(network: Network, tiny_model: PreTrainedModel) -> None:
    memories = Memories(network, partial(Runner, capture=False))
    first, runner = memories.take(2, 100)
    assert (first.rows, first.slots) == (2, 129)
    assert memories.take(2, 100)[0] is not first
    with torch.inference_mode():
        runner.forward(window([-1, -1], 5, 1))
    memories.give_back(first, runner)
    assert memories.take(1, 120) == (first, runner)
    assert not first._tensor.any()
    memories.give_back(first, runner)
    assert memories.take(2, 130)[0] is not first
    assert memories.take(1, 120)[0] is not first
    engine = ModelEngine(tiny_model, stop_token_ids=frozenset(), graphs=True)
    rows = engine.open(1, 40)
    assert not engine._memories._idle
    del rows
    assert len(engine._memories._idle) == 1


@torch.inference_mode()
def test_a_failed_capture_is_told_once(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    monkeypatch.setattr(Runner, "_captured", fail)
    plain, runner = Memory(network, 1, 160), Runner(Memory(network, 1, 160), capture=True)
    for at in range(3):
        runner.forward(window([at], 1, 1))
        plain.forward(window([at], 1, 1))
    with pytest.warns(UserWarning, match="CUDA graphs are off.*is capturing$"):
        runner.forward(window([3], 1, 1))
    assert not runner.memory.warming
    plain.forward(window([3], 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(runner.forward(window([4], 1, 1)), plain.forward(window([4], 1, 1)))


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """CUDA's capture replaced by an eager pass; for each one, whether garbage could be collected meanwhile."""
    found: list[bool] = []

    @contextmanager
    def graph(*_: object, **options: object) -> Iterator[None]:
        found.append(gc.isenabled())
        yield

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: None))
    monkeypatch.setattr(torch.cuda, "graph", graph)
    return found


@torch.inference_mode()
def test_passes_are_warming_until_their_graph_is_captured(network: Network, captures: list[bool]) -> None:
    memory = Memory(network, 3, 160)
    runner = Runner(memory, capture=True)
    found = []
    for _ in range(6):
        runner.forward(window([6], 4, 1))
        found.append(memory.warming)
    assert found == [True, True, True, True, False, False]
    assert captures == [False], "garbage might end the graphs of earlier rows, which CUDA forbids then"
    assert gc.isenabled()
    runner.forward(replace(window([0, 0], 6, 0), first=1))
    assert not memory.warming, "several rows of prompts behind others have no graph to wait for"
    plain = Runner(memory, capture=False)
    plain.forward(window([20], 4, 1))
    assert not memory.warming


@torch.inference_mode()
def test_shapes_beyond_the_most_graphs_are_read_without(
    network: Network, captures: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_graphs, "_MOST_GRAPHS", 1)
    plain, runner = Memory(network, 2, 160), Runner(Memory(network, 2, 160), capture=True)
    for at in range(6):
        runner.forward(window([at], 10, 0))
    for at in range(6):
        prompt = replace(window([at], 20, 0), first=1)
        runner.forward(prompt)
        plain.forward(prompt)
    assert len(captures) == 1
    torch.testing.assert_close(runner.memory._tensor[:, 1, :, 1:], plain._tensor[:, 1, :, 1:])


@torch.inference_mode()
def test_the_columns_of_wider_windows_before_write_nothing(network: Network) -> None:
    """Another text was read in the row since: a column that is left over would write its old token there."""
    plain, runner = Memory(network, 1, 160), Runner(Memory(network, 1, 160), capture=False)
    wide, other = window([0], 30, 0), window([0], 40, 0)
    other = replace(other, ids_RQ=other.ids_RQ + 1)
    for each in (wide, other, window([40], 17, 0)):
        runner.forward(each)
        plain.forward(each)
    torch.testing.assert_close(runner.memory._tensor[:, :, :, 1:], plain._tensor[:, :, :, 1:])


@torch.inference_mode()
def test_what_a_replay_writes_is_cleared(network: Network, captures: list[bool]) -> None:
    runner = Runner(Memory(network, 3, 160), capture=True)
    prompt = replace(window([0], 20, 0), first=2)
    for _ in range(5):
        runner.forward(prompt)
    assert captures
    runner.memory.clear()
    runner.forward(prompt)
    runner.memory._tensor[:, 2, :, 1:21] = 1  # as a graph would
    runner.memory.clear()
    assert not runner.memory._tensor.any()


@torch.inference_mode()
def test_passes_over_prompts_look_at_no_value(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = as_in_captures(monkeypatch)
    runner = Runner(Memory(network, 3, 160), capture=False)
    for at in range(5):
        runner.forward(window([at, at - 2], 6, 0))
        runner.forward(replace(window([at], 20 + at, 0), first=2))
    assert {bucket.first for bucket in captured} == {0, 2}
    assert len(set(captured)) == 2
