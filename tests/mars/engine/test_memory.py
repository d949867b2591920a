"""The memory of keys and values: where a pass writes, and what it reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from mars.engine.memory import Access, Memory
from mars.engine.window import Window

LAYERS, ROWS, SLOTS, HEADS, SIZE = 2, 4, 12, 3, 5


class Scribe:
    """Writes its own numbers as keys and values, and keeps what it can read afterwards."""

    layers, key_value_heads, head_size = LAYERS, HEADS, SIZE
    dtype, device, lean, steady = torch.float32, torch.device("cpu"), True, False

    def __init__(self) -> None:
        self.written: list[torch.Tensor] = []
        self.found: list[tuple[torch.Tensor, torch.Tensor]] = []

    def rotations(self, positions: int) -> torch.Tensor:
        return torch.empty(0)

    def read(self, window: Window, access: Access) -> torch.Tensor:
        count = len(access.places) // (2 * HEADS)
        self.written = [torch.randn(count, 2 * HEADS, SIZE) for _ in range(LAYERS)]
        for layer, numbers in enumerate(self.written):
            access.write(layer, numbers)
        self.found = [access.read(layer) for layer in range(LAYERS)]
        return torch.empty(window.rows, 0, 1)


def window(slots: list[list[int]], first: int = 0) -> Window:
    slots_RQ = torch.tensor(slots)
    extent = int(slots_RQ.max()) + 1
    return Window(ids_RQ=torch.ones_like(slots_RQ), slots_RQ=slots_RQ, extent=extent, keep=0, first=first)


WINDOWS = [window([[1, 2, 3], [3, 4, 5]], 1), window([[4]]), window([[2], [4], [6], [8]]), window([[9, 10]], 3)]


@pytest.mark.parametrize("each", WINDOWS)
def test_what_a_column_writes_is_read_there(each: Window) -> None:
    torch.manual_seed(0)
    scribe = Scribe()
    memory = Memory(scribe, ROWS, SLOTS)
    memory.forward(each)
    expected = torch.zeros(LAYERS, 2, ROWS, HEADS, SLOTS, SIZE)
    for layer, numbers in enumerate(scribe.written):
        for column, slot in enumerate(each.slots_RQ.flatten()):
            row = each.first + column // each.columns
            expected[layer, :, row, :, slot] = numbers[column].view(2, HEADS, SIZE)
    assert torch.equal(memory._tensor, expected.flatten(0, 1))
    for layer, (keys_RHKD, values_RHKD) in enumerate(scribe.found):
        here = expected[layer, :, each.first : each.first + each.rows, :, 1 : each.extent]
        assert torch.equal(keys_RHKD, here[0])
        assert torch.equal(values_RHKD, here[1])


def test_clearing_forgets_what_was_noted_and_nothing_else() -> None:
    memory = Memory(Scribe(), ROWS, SLOTS)
    memory.forward(WINDOWS[0])
    assert memory._tensor.any()
    memory._tensor[:, 3:] = memory._tensor[:, :, :, 6:] = 1
    memory.clear()
    assert not memory._tensor[:, :3, :, :6].any()
    assert (memory._tensor[:, 3:] == 1).all()
    assert (memory._tensor[:, :, :, 6:] == 1).all()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_slots_that_nobody_has_written_take_no_memory() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    memory = Memory(Scribe(), 4, 2_000_000)  # 480 MB
    memory.forward(WINDOWS[0])
    assert resident() - before < 50e6
    assert not memory._tensor[0, 0, 0, -5:].any()
