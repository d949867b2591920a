"""Rows with their own cursors against the plain model, in double precision: on the lean network and on the modules.

Windows of any length and trees are in tests/mars_kernels/test_backends.py.
"""

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from transformers import PreTrainedModel

from mars.engine.engine import CachedRows, Rows
from mars.engine.memory import Memory, Model
from mars.engine.network import Network
from mars.engine.transformer import Transformer
from mars.engine.window import Window

Open = Callable[..., Rows]


@pytest.fixture(scope="module")
def model(tiny_model: PreTrainedModel) -> PreTrainedModel:
    return copy.deepcopy(tiny_model).double()


@pytest.fixture(params=["network", "modules"])
def opened(model: PreTrainedModel, request: pytest.FixtureRequest) -> Open:
    """Opens rows of each kind: `opened(rows, capacity, mask_token_id=None)`."""

    def open_rows(rows: int, capacity: int, mask_token_id: int | None = None) -> Rows:
        reader: Model = (Network if request.param == "network" else Transformer)(model, mask_token_id)
        return CachedRows(Memory(reader, rows, capacity + 1), rows, capacity)

    return open_rows


def window(ids: Sequence[Sequence[int]], slots: Sequence[Sequence[int]], keep: int, **options: object) -> Window:
    places = torch.tensor(slots)
    return Window(ids_RQ=torch.tensor(ids), slots_RQ=places, extent=int(places.max()) + 1, keep=keep, **options)


def plain(model: PreTrainedModel, tokens: list[int], keep: int) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0, -keep:].float()


def slots(start: int, count: int) -> list[int]:
    return list(range(start + 1, start + count + 1))


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """To 1e-5, for the modules compute their norms in float32 whatever the model is in."""
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_rows_are_rewound_by_writing_slots_again(model: PreTrainedModel, opened: Open) -> None:
    """What lies behind an extent is hidden, and a row of padding disturbs nobody."""
    rows = opened(2, 20)
    rows.forward(window([[7, 8, 9, 3, 3, 3], [0] * 6], [slots(0, 6), [0] * 6], 4))
    far = Window(ids_RQ=torch.tensor([[10], [6]]), slots_RQ=torch.tensor([[4], [1]]), extent=12, keep=1)
    logits = rows.forward(far)
    close(logits[0], plain(model, [7, 8, 9, 10], 1))
    close(logits[1], plain(model, [6], 1))
    close(rows.forward(window([[10, 11, 3]], [slots(3, 3)], 3))[0], plain(model, [7, 8, 9, 10, 11, 3], 3))


def test_a_window_leaves_other_rows_alone(model: PreTrainedModel, opened: Open) -> None:
    rows = opened(4, 20)
    rows.forward(window([[7, 8]] * 4, [slots(0, 2)] * 4, 0))
    logits = rows.forward(window([[9, 10], [11, 12]], [slots(2, 2), slots(1, 2)], 1, first=1))
    close(logits[0], plain(model, [7, 8, 9, 10], 1))
    close(logits[1], plain(model, [7, 11, 12], 1))
    logits = rows.forward(window([[5]] * 4, [[3], [5], [4], [3]], 1))
    for row, text in enumerate(([7, 8], [7, 8, 9, 10], [7, 11, 12], [7, 8])):
        close(logits[row], plain(model, [*text, 5], 1))


def test_a_moved_row_goes_on_where_it_was(model: PreTrainedModel, opened: Open) -> None:
    rows = opened(3, 20)
    rows.forward(window([[7, 8], [9, 10], [11, 12]], [slots(0, 2)] * 3, 0))
    rows.move(2, 0)
    logits = rows.forward(window([[13], [13]], [[3], [3]], 1))
    close(logits[0], plain(model, [11, 12, 13], 1))
    close(logits[1], plain(model, [9, 10, 13], 1))


def test_masks_have_no_chance_and_slots_an_end(opened: Open) -> None:
    logits = opened(1, 20, 3).forward(window([[7, 8]], [[1, 2]], 2))
    assert (logits[..., 3] == -torch.inf).all()
    assert logits[..., 4:].isfinite().all()
    with pytest.raises(ValueError, match="slots must be <= the capacity of 4, got 5"):
        opened(1, 4).forward(window([[7, 8]], [[4, 5]], 1))
    with pytest.raises(ValueError, match="rows must be < the 2 opened, got row 2"):
        opened(2, 4).forward(window([[7], [8]], [[1], [1]], 1, first=1))


def test_the_cache_is_written_in_place(model: PreTrainedModel) -> None:
    memory = Memory(Network(model), 1, 21)
    before = memory._tensor.data_ptr()
    for places in ([1, 2, 3], [3, 4, 5], [4, 5, 6]):
        memory.forward(window([[9, 3, 3]], [places], 3))
    assert memory._tensor.data_ptr() == before
    assert memory._tensor[:, :, :, 1:7].any(-1).all()
    assert not memory._tensor[:, :, :, 7:].any()
