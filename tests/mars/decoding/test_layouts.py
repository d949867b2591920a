"""The layouts: how many columns they have, and which numbers of columns are timed together."""

from __future__ import annotations

from mars.decoding.policy import size_of
from mars.decoding.trees import LAYOUTS, columns_of


def test_columns() -> None:
    assert [columns_of(layout, 3) for layout in LAYOUTS] == [1, 7, 16]
    assert [columns_of(layout, 7) for layout in LAYOUTS] == [1, 15, 64]


def test_sizes() -> None:
    """Each number of rows up to 8, then in steps of at most a quarter, rounded up."""
    assert [size_of(rows) for rows in range(1, 13)] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 12]
    for rows in range(1, 2000):
        assert rows <= size_of(rows) < 1.25 * rows
        assert size_of(size_of(rows)) == size_of(rows)
