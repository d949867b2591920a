"""The times of passes by their columns, and the price of one more column."""

from __future__ import annotations

import pytest

from mars.decoding.costs import TRIALS, PassTimes, Profile, ascending, curve


def test_an_interruption_counts_for_nothing_beside_larger_passes() -> None:
    profile = Profile()
    for columns, seconds in ((8, 9.0), (16, 2.0), (4, 1.0)):
        for _ in range(TRIALS):
            profile.took(columns, seconds)
    assert [curve(profile.points, columns) for columns in (4, 8, 16)] == [1.0, 2.0, 2.0]


def test_where_medians_fall_their_samples_are_pooled() -> None:
    assert ascending([]) == []
    assert ascending([[1, 1], [3, 2, 4], [2, 2, 2, 2], [5]]) == [1, 2, 2, 5]
    assert ascending([[9, 9, 9], [2, 2, 2], [2, 2, 2]]) == [2, 2, 2], "an interruption"


def test_the_price_of_copies_is_that_of_passes_without_masks() -> None:
    """The first passes with masks have seven columns, and say nothing of what the fifth one costs."""
    times = PassTimes()
    for columns in (1, 4, 8, 16):
        for _ in range(TRIALS):
            times.took(columns, 1.0 + columns / 4, "plain")
    for columns in (7, 8, 9):
        for _ in range(TRIALS):
            times.took(columns, 5.0, "tree")
    assert times.price(4, 1.0, "plain") == pytest.approx(1 / 4)
    assert times.price(4, 1.0, "tree") < 0.05
    assert PassTimes().price(4, 1.0, "plain") is None


def test_passes_with_masks_say_nothing_of_plain_widths_that_were_timed() -> None:
    """One row's eight columns took 2 seconds, eight rows take 4: the controller stayed with one token a row for it."""
    times = PassTimes()
    for columns, seconds, kind in ((1, 1.0, "plain"), (8, 4.0, "plain"), (8, 2.0, "line"), (16, 3.0, "line")):
        for _ in range(TRIALS):
            times.took(columns, seconds, kind)
    assert times.seconds(8, "plain") == 4.0
    assert times.seconds(8, "line") == 2.0
    assert times.seconds(16, "plain") == 3.0, "no width like it was timed, and masks take no less"


def test_times_are_joined_by_lines_and_grow_beyond_them() -> None:
    assert curve([], 5) is None
    points = [(2.0, 1.0), (5.0, 1.0), (10.0, 1.0), (20.0, 3.0)]
    assert [curve(points, columns) for columns in (1, 2, 6, 15, 20)] == [1, 1, 1, 2, 3]
    assert curve(points, 40) == pytest.approx(3 + 20 * 2 / 15)
    assert curve([(64.0, 1.0)], 320) == pytest.approx(2), "a quarter of in proportion"
    assert curve([(1.0, 1.0)], 33) == pytest.approx(1.25)
