"""Pareto frontiers by hand: who stands where, speed at equal loss."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.frontiers import Standing, speed_at_loss, standings
from analysis.stats.intervals import Interval


def point(accuracy: float, speed: float, give: float = 0.0) -> list[Interval]:
    return [
        Interval(accuracy, accuracy - give, accuracy + give),
        Interval(speed, speed - give / 10, speed + give / 10),
    ]


def rows(correct: int, n: int = 40, passes: int = 10) -> pd.DataFrame:
    right = np.arange(n) < correct
    return pd.DataFrame(
        {"task": "logic", "number": range(n), "correct": right, "tokens": 10, "passes": passes, "seconds": 1.0}
    )


def test_sure_points() -> None:
    found = standings({"ar": point(90, 1), "good": point(89, 3), "bad": point(80, 2)})
    states = {name: standing.state for name, standing in found.items()}
    assert states == {"ar": "frontier", "good": "frontier", "bad": "dominated"}


def test_equal_accuracy_and_surely_faster_dominates() -> None:
    found = standings({"linear": point(90, 2, 3), "quadratic": point(90, 3, 3)})
    assert (found["linear"].state, found["quadratic"].state) == ("dominated", "frontier")


def test_what_the_intervals_leave_open() -> None:
    found = standings({"ar": point(90, 1, 2), "tau": point(88, 2, 2)})
    assert found == {"ar": Standing("undecided", best_by_value=True), "tau": Standing("frontier", best_by_value=True)}
    worse = standings({"worse": point(89, 1.9, 2), "tau": point(90, 2, 2)})["worse"]
    assert worse == Standing("undecided", best_by_value=False), "dominated, but only by value"


def test_equal_points_are_both_on_the_frontier() -> None:
    assert [standing.state for standing in standings({"a": point(1, 1), "b": point(1, 1)}).values()] == ["frontier"] * 2
    assert standings({}) == {}


def test_speed_at_loss_is_between_the_neighbours() -> None:
    baseline, runs = rows(40), [rows(38, passes=5), rows(30, passes=2)]  # losses 5 and 25 points at 2 and 5 tokens
    values = [speed_at_loss(runs, baseline, points)[0] for points in (0, 2.5, 5, 15, 25, 60)]
    assert values == pytest.approx([1, 1.5, 2, 3.5, 5, np.nan], nan_ok=True)
    assert np.isnan(speed_at_loss([], baseline, 2)[0]), "no setting loses so much"
    assert speed_at_loss([rows(40, passes=4)], baseline, 0)[0] == 2.5, "a faster setting without loss"
    dominated = [*runs, rows(20, passes=4)]
    assert speed_at_loss(dominated, baseline, 5)[0] == pytest.approx(2)
    assert speed_at_loss(runs, baseline, 5)[1].std() > 0
    with pytest.raises(ValueError, match="points must be >= 0, got -1"):
        speed_at_loss(runs, baseline, -1)


def test_runs_must_be_comparable() -> None:
    with pytest.raises(ValueError, match="same problems"):
        speed_at_loss([rows(3)], rows(3, n=20), 2)
