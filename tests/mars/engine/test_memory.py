"""The memory of keys and values: what is cleared, and what takes no memory."""

import sys
from pathlib import Path

import pytest
import torch

from mars.engine.memory import Access, Memory
from mars.engine.window import Window

LAYERS, ROWS, SLOTS, HEADS, SIZE = 2, 4, 12, 3, 5


class Scribe:
    """Writes its own numbers as keys and values."""

    layers, key_value_heads, head_size = LAYERS, HEADS, SIZE
    dtype, device, lean, steady = torch.float32, torch.device("cpu"), True, False

    def rotations(self, positions: int) -> torch.Tensor:
        return torch.empty(0)

    def read(self, window: Window, access: Access) -> torch.Tensor:
        count = len(access.places) // (2 * HEADS)
        for layer in range(LAYERS):
            access.write(layer, torch.randn(count, 2 * HEADS, SIZE))
        return torch.empty(window.rows, 0, 1)


SLOTS_RQ = torch.tensor([[1, 2, 3], [3, 4, 5]])
WINDOW = Window(ids_RQ=torch.ones_like(SLOTS_RQ), slots_RQ=SLOTS_RQ, extent=6, keep=0, first=1)


def test_clearing_forgets_what_was_noted_and_nothing_else() -> None:
    memory = Memory(Scribe(), ROWS, SLOTS)
    memory.forward(WINDOW)
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
    memory.forward(WINDOW)
    assert resident() - before < 50e6
    assert not memory._tensor[0, 0, 0, -5:].any()
