"""Windows: who sees whom, and several of them as one."""

from __future__ import annotations

import torch

from mars.engine.attention import share_mask
from mars.engine.window import Window, merge

SEEN = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)[None]


def causal(ids: list[list[int]], slots: list[list[int]], keep: int = 1) -> Window:
    places = torch.tensor(slots)
    return Window(ids_RQ=torch.tensor(ids), slots_RQ=places, extent=int(places.max()) + 1, keep=keep)


def tree(start: int) -> Window:
    """A token at slot `start` and two alternatives behind it."""
    slots = torch.tensor([[start, start + 1, start + 2]])
    positions = torch.tensor([[start - 1, start, start]])
    return Window(
        ids_RQ=torch.tensor([[9, 20, 30]]),
        slots_RQ=slots,
        extent=start + 3,
        keep=3,
        positions_RQ=positions,
        sees_RQQ=SEEN,
    )


def seen_slots(window: Window) -> list[list[list[int]]]:
    visible = window.visible(torch.arange(window.extent))
    return [[row.nonzero().flatten().tolist() for row in rows] for rows in visible]


def test_columns_see_what_comes_before_them() -> None:
    window = causal([[7, 8], [0, 9]], [[2, 3], [0, 1]])
    assert seen_slots(window) == [[[1, 2], [1, 2, 3]], [[0], [1]]]
    assert window.positions.tolist() == [[1, 2], [0, 0]]
    assert seen_slots(tree(3)) == [[[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5]]], "its branch"


def test_merged_windows_see_what_they_saw_alone() -> None:
    parts = [([1], tree(3)), ([0, 2], causal([[7, 8], [0, 9]], [[2, 3], [0, 1]]))]
    window = merge(parts)
    assert window.slots_RQ.tolist() == [[0, 2, 3], [3, 4, 5], [0, 0, 1]]
    assert window.positions.tolist() == [[0, 1, 2], [2, 3, 3], [0, 0, 0]]
    assert (window.extent, window.keep, window.first) == (6, 3, 0)
    assert seen_slots(window) == [
        [[0], [1, 2], [1, 2, 3]],
        [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5]],
        [[0], [0], [1]],
    ]


def test_places_that_no_part_names_are_padding() -> None:
    window = merge([([3], causal([[9]], [[5]])), ([1], causal([[7, 8]], [[2, 3]]))])
    assert window.ids_RQ.tolist() == [[0, 0], [7, 8], [0, 0], [0, 9]]
    assert window.slots_RQ.tolist() == [[0, 0], [2, 3], [0, 0], [0, 5]]
    assert window.positions.tolist() == [[0, 0], [1, 2], [0, 0], [0, 4]]
    assert seen_slots(window)[0] == seen_slots(window)[2] == [[0], [0]]
    assert window.sees_RQQ is None, "causal windows stay causal"
    alone = merge([([1], tree(3))])
    assert alone.slots_RQ.tolist() == [[0, 0, 0], [3, 4, 5]]
    assert seen_slots(alone) == [[[0], [0], [0]], [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5]]]


def test_heads_of_a_group_share_a_mask() -> None:
    mask = torch.arange(12.0).view(2, 1, 2, 3)
    shared = share_mask(mask, 2)
    assert shared is not None
    assert shared.tolist() == torch.cat((mask, mask), 2).tolist()
    assert share_mask(None, 2) is None
    part = share_mask(mask[:1, :, 1:2], 2)
    assert part is not None
    assert part.is_contiguous(), "of one query, too: kernels for GPUs take a view to be aligned"
