"""Accuracy against speed."""

from typing import Any

import pandas as pd

from analysis import figures


def test_frontier_joins_thresholds_and_shows_intervals_both_ways(of: Any, traces: Any, table: pd.DataFrame) -> None:
    figure = figures.frontier(table[~table["timed"].astype(bool)])
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


def test_the_frontier_has_rings(of: Any, traces: Any, table: pd.DataFrame) -> None:
    points = figures.frontier_points(table)
    exact = of(points, "self_speculative")
    assert exact["best_by_value"]
    assert not of(points, "sliding_window", threshold=0.5)["best_by_value"]
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


def test_ar_is_drawn_over_the_others(table: pd.DataFrame) -> None:
    figure = figures.frontier(table)
    drawn = [trace for trace in figure.data if trace.hoverinfo != "skip"]
    assert "autoregressive" in drawn[-1].name
    assert drawn[-1].marker.size > drawn[0].marker.size
