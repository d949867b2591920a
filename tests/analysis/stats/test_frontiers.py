"""Pareto frontiers by hand: who stands where, the area under them, speed at equal loss."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats.frontiers import area, measured_area, resampled_points, speed_at_loss, standings
from analysis.stats.intervals import Interval

UP = {"accuracy": "up", "speed": "up"}


def point(accuracy: float, speed: float, give: float = 0.0) -> dict[str, Interval]:
    return {
        "accuracy": Interval(accuracy, accuracy - give, accuracy + give),
        "speed": Interval(speed, speed - give / 10, speed + give / 10),
    }


def rows(correct: int, n: int = 40, passes: int = 10) -> pd.DataFrame:
    right = np.arange(n) < correct
    return pd.DataFrame(
        {"task": "logic", "number": range(n), "correct": right, "tokens": 10, "passes": passes, "seconds": 1.0}
    )


def test_sure_points() -> None:
    found = {
        standing.name: standing
        for standing in standings({"ar": point(90, 1), "good": point(89, 3), "bad": point(80, 2)}, UP)
    }
    assert {name: standing.state for name, standing in found.items()} == {
        "ar": "frontier",
        "good": "frontier",
        "bad": "dominated",
    }
    assert (found["bad"].by, found["ar"].by) == ("good", None)


def test_equal_accuracy_and_surely_faster_dominates() -> None:
    exact = {"linear": point(90, 2, 3), "quadratic": point(90, 3, 3)}
    linear, quadratic = standings(exact, UP)
    assert (linear.state, linear.by, quadratic.state) == ("dominated", "quadratic", "frontier")


def test_what_the_intervals_leave_open() -> None:
    slightly_worse, faster = standings({"ar": point(90, 1, 2), "tau": point(88, 2, 2)}, UP)
    assert (slightly_worse.state, slightly_worse.by, slightly_worse.best_by_value) == ("undecided", "tau", True)
    assert (faster.state, faster.best_by_value) == ("frontier", True)
    worse, _ = standings({"worse": point(89, 1.9, 2), "tau": point(90, 2, 2)}, UP)
    assert (worse.state, worse.best_by_value) == ("undecided", False), "dominated, but only by value"


def test_directions_turn_around() -> None:
    points = {"cheap": {"cost": Interval(1, 1, 1)}, "dear": {"cost": Interval(2, 2, 2)}}
    assert [standing.state for standing in standings(points, {"cost": "down"})] == ["frontier", "dominated"]
    assert [standing.state for standing in standings(points, {"cost": "up"})] == ["dominated", "frontier"]


def test_equal_points_are_both_on_the_frontier() -> None:
    assert [standing.state for standing in standings({"a": point(1, 1), "b": point(1, 1)}, UP)] == ["frontier"] * 2
    assert standings({}, UP) == []


@pytest.mark.parametrize(
    ("points", "directions", "words"),
    [
        ({"a": point(1, 1)}, {"accuracy": "left"}, "up or down, got left"),
        ({"a": point(1, 1)}, {}, "up or down, got none"),
        ({"a": point(1, 1)}, {"cost": "down"}, "needs cost, got a without cost"),
    ],
)
def test_bad_input(points: dict, directions: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        standings(points, directions)


def test_area_by_hand() -> None:
    assert area([(2, 3)], reference=(0, 1)) == 4
    assert area([(2, 3), (4, 2)], reference=(0, 1)) == 2 * 2 + 2 * 1
    assert area([(2, 3), (4, 2), (1, 2)], reference=(0, 1)) == 6, "a dominated point adds nothing"
    assert area([(2, 0.5), (-1, 9)], reference=(0, 1)) == 0, "nor does one that is worse than the reference"
    assert area([], reference=(0, 0)) == 0
    assert area([(2, 3)], reference=(4, 1), directions=("down", "up")) == 4
    with pytest.raises(ValueError, match="up or down, got sideways"):
        area([(1, 1)], reference=(0, 0), directions=("up", "sideways"))  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=6))
def test_area_is_the_cells_that_are_covered(points: list[tuple[int, int]]) -> None:
    covered = {(x, y) for right, top in points for x in range(right) for y in range(top)}
    assert area(points, reference=(0, 0)) == len(covered)


def test_measured_area_is_that_of_the_points_with_an_interval() -> None:
    runs = {"one": rows(36), "fast": rows(30, passes=5)}
    found = measured_area(runs, reference=(0.5, 0.5))
    assert found.value == pytest.approx(area([(0.9, 1), (0.75, 2)], reference=(0.5, 0.5)))
    assert found.low < found.value < found.high
    sure = measured_area({"one": rows(40)}, reference=(0.5, 0.5))
    assert (sure.low, sure.value, sure.high) == (0.25, 0.25, 0.25)


def test_runs_are_resampled_alike() -> None:
    _, drawn = resampled_points([rows(30), rows(30, passes=5)])
    assert (drawn[:, 0, 0] == drawn[:, 1, 0]).all()
    assert drawn[:, 0, 0].std() > 0


def test_speed_at_loss_is_between_the_neighbours() -> None:
    baseline, runs = rows(40), [rows(38, passes=5), rows(30, passes=2)]  # losses 5 and 25 points at 2 and 5 tokens
    values = [speed_at_loss(runs, baseline, points)[0] for points in (0, 2.5, 5, 15, 25, 60)]
    assert values == pytest.approx([1, 1.5, 2, 3.5, 5, 5])
    assert speed_at_loss([], baseline, 2)[0] == 1
    assert speed_at_loss([rows(40, passes=4)], baseline, 0)[0] == 2.5, "a faster setting without loss"
    dominated = [*runs, rows(20, passes=4)]
    assert speed_at_loss(dominated, baseline, 5)[0] == pytest.approx(2)
    assert speed_at_loss(runs, baseline, 5)[1].std() > 0
    with pytest.raises(ValueError, match="points must be >= 0, got -1"):
        speed_at_loss(runs, baseline, -1)


def test_runs_of_an_area_must_be_comparable() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        measured_area({}, reference=(0, 0))
    with pytest.raises(ValueError, match="same problems"):
        measured_area({"a": rows(3), "b": rows(3, n=20)}, reference=(0, 0))
    with pytest.raises(ValueError, match="measures must be some of accuracy, tokens_per_forward, tokens_per_second"):
        measured_area({"a": rows(3)}, measures=("accuracy", "speed"), reference=(0, 0))
