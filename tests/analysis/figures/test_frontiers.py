"""Frontiers: of all runs, and by family."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis import figures
from analysis.figures.style import NEUTRAL
from analysis.runs import RunStore
from analysis.stats.intervals import wilson_interval


def test_frontier_joins_thresholds_and_shows_intervals_both_ways(of: Any, traces: Any, table: pd.DataFrame) -> None:
    figure = figures.frontier(table[(table["source"] == "measured") & ~table["timed"].astype(bool)])
    (line,) = [trace for trace in traces(figure, "mars-b8 · sliding_window") if "margin" not in trace.name]
    assert list(line.y) == [0.9, 0.85, 0.6]
    rows = [
        of(table, "sliding_window", threshold=value, model__name="mars-b8", settings__score="probability", timed=False)
        for value in (None, 0.95, 0.5)
    ]
    assert list(line.customdata) == [row["id"] for row in rows]
    for error, name in ((line.error_x, "tokens_per_forward"), (line.error_y, "accuracy")):
        assert list(error.array) == [row[f"{name}_high"] - row[name] for row in rows]
        assert list(error.arrayminus) == [row[name] - row[f"{name}_low"] for row in rows]


def test_frontier_has_the_band_of_ar_whatever_is_filtered(table: pd.DataFrame) -> None:
    figure = figures.frontier(table[table["settings.threshold"] == 0.5])
    band, line = figure.layout.shapes
    low, high = wilson_interval(72, 80)
    assert (band.y0, band.y1, line.y0) == (pytest.approx(low), pytest.approx(high), pytest.approx(0.9))
    assert line.showlegend
    assert line.line.color == NEUTRAL


def test_frontier_against_seconds_has_a_panel_for_each_batch_size(traces: Any, table: pd.DataFrame) -> None:
    figure = figures.frontier(table[table["source"] == "measured"], against="speedup")
    assert [note.text for note in figure.layout.annotations] == ["batch size 1", "batch size 4"]
    assert {axis for trace in traces(figure, "sliding_window") for axis in [trace.xaxis]} == {"x", "x2"}
    assert sum(bool(trace.showlegend) for trace in traces(figure, "mars-b8 · sliding_window")) == 1


def test_frontier_says_where_points_stand(of: Any, traces: Any, table: pd.DataFrame) -> None:
    points = figures.frontier_points(table)
    exact = of(points, "self_speculative")
    assert exact["best_by_value"]
    assert of(points, "sliding_window", threshold=0.5)["standing"] == "dominated"
    assert points.loc[points["source"] == "published", "standing"].isna().all()
    ring = traces(figures.frontier(table), "frontier")[0]
    assert exact["tokens_per_forward"] in ring.x


def test_families_have_a_panel_each_with_their_own_band(of: Any, store: RunStore, by_family: pd.DataFrame) -> None:
    figure = figures.families(by_family)
    assert [note.text for note in figure.layout.annotations] == ["logic", "word_problems"]
    assert len(figure.layout.shapes) == 4
    row = of(by_family, "sliding_window", threshold=0.5, task="logic")
    assert row["n"] == 40
    assert row["accuracy_high"] == pytest.approx(wilson_interval(24, 40)[1])


def test_ar_is_drawn_over_the_others(table: pd.DataFrame) -> None:
    figure = figures.frontier(table[table["source"] == "measured"])
    drawn = [trace for trace in figure.data if trace.hoverinfo != "skip"]
    assert "autoregressive" in drawn[-1].name
    assert drawn[-1].marker.size > drawn[0].marker.size
