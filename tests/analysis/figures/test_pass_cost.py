"""The cost of a pass: the times as measured, the two limits of the machine, and what is said without them."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import figures
from analysis.figures.pass_cost import COMPUTING, READING

MEASURED: dict[str, Any] = {
    "checkpoint": "a $model",
    "dtype": "float32",
    "times": [
        {"columns": 1, "seconds": 0.030, "low": 0.029, "high": 0.032},
        {"columns": 8, "seconds": 0.045, "low": 0.044, "high": 0.046},
    ],
    "roofline": {
        "weight_bytes": 400_000_000,
        "operations_per_column": 200_000_000,
        "bytes_per_second": 40e9,
        "operations_per_second": 100e9,
    },
}


def test_times_and_limits_are_drawn_in_milliseconds() -> None:
    figure = figures.pass_cost(MEASURED)
    drawn = {trace.name: (list(trace.x), list(trace.y)) for trace in figure.data}
    assert drawn == {
        "a &#36;model, float32": ([1, 8], [pytest.approx(30), pytest.approx(45)]),
        READING: ([1, 8], [pytest.approx(10)] * 2),
        COMPUTING: ([1, 8], [pytest.approx(2), pytest.approx(16)]),
    }
    assert list(figure.data[0].error_y.array) == pytest.approx([2, 1])
    assert list(figure.data[0].error_y.arrayminus) == pytest.approx([1, 1])
    assert "1.50× one column" in figure.data[0].hovertext[1]


def test_a_file_without_a_roofline_has_no_limits() -> None:
    old = {name: value for name, value in MEASURED.items() if name != "roofline"}
    assert len(figures.pass_cost(old).data) == 1
    assert figures.pass_cost_points(old)["reading"].isna().all()


def test_without_times_the_figure_says_so() -> None:
    figure = figures.pass_cost(None)
    assert not figure.data
    assert "python -m analysis columns" in figure.layout.annotations[0].text.replace("<br>", " ")
    assert figures.pass_cost_points(None).empty
