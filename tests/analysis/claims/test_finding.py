"""Numbers with their intervals, in words."""

from analysis.claims.finding import number, points
from analysis.stats.intervals import Interval


def test_numbers_read_well() -> None:
    assert points(Interval(-0.31, -1.24, 0.61)) == "−0.3 [−1.2, +0.6]"
    assert points(Interval(-0.01, -0.04, 0.02)) == "0.0 [0.0, 0.0]"
    assert number(Interval(2.751, 2.7, 2.8)) == "2.75 [2.70, 2.80]"
