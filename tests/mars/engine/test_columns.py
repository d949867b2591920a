"""Which columns a pass leaves out; tests/mars/test_reference.py compares the texts of padded rows."""

from dataclasses import replace

import torch

from mars.engine.window import Columns, Window, columns_of


def window(*counts: int) -> Window:
    """Rows of so many tokens, padded on the left to the width of the first."""
    slots_RQ = torch.tensor([[0] * (counts[0] - count) + [*range(1, count + 1)] for count in counts])
    return Window(ids_RQ=slots_RQ, slots_RQ=slots_RQ, extent=counts[0] + 1, keep=1)


def test_only_padding_worth_it_is_left_out() -> None:
    half = window(8, 2)
    real_N = columns_of(half, static=False).real_N
    assert real_N is not None
    assert real_N.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 14, 15]
    on_device = replace(half, slots_RQ=half.slots_RQ.to("meta"), ids_RQ=half.ids_RQ.to("meta"))
    nothing = replace(half, slots_RQ=torch.zeros_like(half.slots_RQ))
    one_row = replace(half, slots_RQ=half.slots_RQ[1:], ids_RQ=half.ids_RQ[1:])
    for other in (on_device, nothing, one_row, window(8, 7), window(8, 8)):
        assert columns_of(other, static=False) == Columns(other.rows, other.columns)
    assert columns_of(half, static=True) == Columns(2, 8)
