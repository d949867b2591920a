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
    assert list(line.y) == [0.0, -5.0, -30.0], "points to AR"
    rows = [
        of(table, "sliding_window", threshold=value, model__name="mars-b8", settings__score="probability", timed=False)
        for value in (None, 0.95, 0.5)
    ]
    assert list(line.customdata) == [row["id"] for row in rows]
    for error, name in ((line.error_x, "tokens_per_forward"), (line.error_y, "points")):
        assert list(error.array) == [row[f"{name}_high"] - row[name] for row in rows]
        assert list(error.arrayminus) == [row[name] - row[f"{name}_low"] for row in rows]


def test_the_papers_frontier_has_the_band_of_ar(table: pd.DataFrame) -> None:
    figure = figures.frontier(table[(table["settings.threshold"] == 0.5) | (table["source"] == "published")])
    band, line = figure.layout.shapes
    low, high = wilson_interval(72, 80)
    assert (band.y0, band.y1, line.y0) == (pytest.approx(low), pytest.approx(high), pytest.approx(0.9))
    assert line.showlegend
    assert line.line.color == NEUTRAL


def test_frontiers_against_seconds_have_panels_by_batch(traces: Any, table: pd.DataFrame) -> None:
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


def test_where_nobody_judged_up_is_agreement(fabricate: Any) -> None:
    runs = []
    for model, decoder, share in (
        (fabricate.model("ar", "sft", None, None), "autoregressive", 1.0),
        (fabricate.model("m"), "sliding_window", 0.75),
    ):
        entry, rows = fabricate.run(model, decoder, batch_size=1, group="plan/chat", tasks=("chat",), threshold=None)
        rows = rows.assign(tokens=20, agreeing=int(20 * share), turn=0)
        runs.append(({**entry, "judged": False}, rows))
    table = figures.measure(fabricate.store(runs))
    figure = figures.frontier(table, against="tokens_per_second")
    assert sorted(y for trace in figure.data if trace.hoverinfo != "skip" for y in trace.y) == [0.75, 1.0]


def test_each_family_has_a_panel_with_ar(of: Any, store: RunStore, by_family: pd.DataFrame) -> None:
    figure = figures.families(by_family)
    assert [note.text for note in figure.layout.annotations] == ["logic", "word_problems"]
    assert [shape.y0 for shape in figure.layout.shapes] == [0, 0]
    row = of(by_family, "sliding_window", threshold=0.5, task="logic")
    assert row["n"] == 40
    assert row["accuracy_high"] == pytest.approx(wilson_interval(24, 40)[1])


def test_ar_is_drawn_over_the_others(table: pd.DataFrame) -> None:
    figure = figures.frontier(table[table["source"] == "measured"])
    drawn = [trace for trace in figure.data if trace.hoverinfo != "skip"]
    assert "autoregressive" in drawn[-1].name
    assert drawn[-1].marker.size > drawn[0].marker.size
