"""How often proposals agree, by score and depth."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis import figures
from analysis.runs import RunStore
from analysis.stats.calibration import reliability


def test_reliability_has_a_panel_for_each_depth(of: Any, store: RunStore, table: pd.DataFrame) -> None:
    figure = figures.reliability(store, table)
    assert [note.text for note in figure.layout.annotations] == ["depth 1", "depth 2", "depth 3"]
    exact = of(table, "self_speculative")
    proposals = store.proposals(exact["id"])
    assert proposals is not None
    bins = reliability(proposals).query("depth == 2 and n >= 10")
    line = next(trace for trace in figure.data if isinstance(trace, go.Scatter) and trace.xaxis == "x2")
    assert list(line.x) == list(bins["mean_score"])
    assert list(line.error_y.array) == list(bins["agreement_high"] - bins["agreement"])
    bars = next(trace for trace in figure.data if isinstance(trace, go.Bar) and trace.xaxis == "x2")
    assert list(bars.y) == pytest.approx(list(bins["n"] / 120))
    assert sum(shape.type == "line" for shape in figure.layout.shapes) == 3


def test_reliability_takes_the_run_on_most_problems(fabricate: Any) -> None:
    runs = [fabricate.run(fabricate.model("m"), "self_speculative", problems=n) for n in (30, 50)]
    store = fabricate.store(runs, {entry["id"]: fabricate.proposals() for entry, _ in runs})
    assert set(figures.reliability_points(store, figures.measure(store))["id"]) == {runs[1][0]["id"]}
