"""The layouts: how many columns they have, and which one a number of columns is."""

from __future__ import annotations

from mars.decoding.costs import size_of
from mars.decoding.trees import LAYOUTS, NARROW, columns_of, layout_of, reach_of


def test_columns() -> None:
    assert [columns_of(layout, 3) for layout in LAYOUTS] == [1, 3, 7, 16]
    assert [columns_of(layout, 7) for layout in LAYOUTS] == [1, 7, 15, 64]
    assert [reach_of(layout, 7) for layout in LAYOUTS] == [0, 3, 7, 7]
    assert [reach_of("narrow", drafts) for drafts in range(1, 10)] == [0, 0, 1, 1, 2, 2, 3, 3, NARROW]


def test_the_number_of_columns_tells_the_layout() -> None:
    """Also with rows of fewer drafts than there could be."""
    for drafts in range(1, 64):
        for layout in (layout for layout in LAYOUTS if layout == "none" or reach_of(layout, drafts)):
            most, reach = columns_of(layout, drafts), reach_of(layout, drafts)
            fewest = most if layout == "quadratic" else reach + 1
            assert {layout_of(columns, drafts) for columns in range(fewest, most + 1)} == {layout}


def test_sizes() -> None:
    """Each number of rows up to 8, then in steps of at most a quarter, rounded up."""
    assert [size_of(rows) for rows in range(1, 13)] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 12]
    for rows in range(1, 2000):
        assert rows <= size_of(rows) < 1.25 * rows
        assert size_of(size_of(rows)) == size_of(rows)
