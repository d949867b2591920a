"""The fastest settings that lose little."""

from __future__ import annotations

import pandas as pd

from analysis import figures


def test_equal_accuracy_takes_the_fastest_setting_that_surely_qualifies(table: pd.DataFrame) -> None:
    points = figures.equal_accuracy_points(table, points=10)
    sliding = points[points["series"] == "mars-b8 · sliding_window"].iloc[0]
    assert (sliding["qualifies"], sliding["tried"]) == (True, 3)
    assert sliding["threshold"] != 0.5
    margin = points[points["series"] == "mars-b8 · sliding_window · margin"].iloc[0]
    assert not margin["qualifies"]
    figure = figures.equal_accuracy(table, points=10)
    assert not [label for label in figure.data[0].y if "margin" in label]
    assert "more without a setting" in figure.layout.annotations[-1].text.replace("<br>", " ")


def test_equal_accuracy_says_when_nothing_qualifies(table: pd.DataFrame) -> None:
    figure = figures.equal_accuracy(table[table["threshold"] == 0.5], points=1)
    assert not figure.data
    assert figure.layout.annotations[0].text.replace("<br>", " ").startswith("No setting of the selection surely loses")


def test_equal_accuracy_against_seconds_has_a_bar_for_each_batch_size(table: pd.DataFrame) -> None:
    figure = figures.equal_accuracy(table, points=15, against="speedup")
    assert [trace.name for trace in figure.data] == ["batch size 1", "batch size 4"]
    assert len({trace.marker.pattern.shape for trace in figure.data}) == 2
