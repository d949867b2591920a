"""Accuracy against speed, the fastest settings that lose little, and the table, looks and words of both."""

from typing import Any

import pandas as pd
import pytest

from analysis import figures
from analysis.figures.frontier import frontier, frontier_points
from analysis.figures.operating_points import equal_accuracy, equal_accuracy_points, judged
from analysis.figures.style import BASELINE, Look
from analysis.runs import RunStore
from analysis.stats.resampling import accuracy, tokens_per_forward


def test_frontier_joins_thresholds_and_shows_intervals_both_ways(of: Any, traces: Any, table: pd.DataFrame) -> None:
    figure = frontier(table[~table["timed"].astype(bool)])
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
    points = frontier_points(table)
    exact = of(points, "self_speculative")
    assert exact["best_by_value"]
    assert not of(points, "sliding_window", threshold=0.5)["best_by_value"]
    ring = traces(frontier(table), "frontier")[0]
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
    figure = frontier(table, against="tokens_per_second")
    assert sorted(y for trace in figure.data if trace.hoverinfo != "skip" for y in trace.y) == [0.75, 1.0]


def test_ar_is_drawn_over_the_others(table: pd.DataFrame) -> None:
    figure = frontier(table)
    drawn = [trace for trace in figure.data if trace.hoverinfo != "skip"]
    assert "autoregressive" in drawn[-1].name
    assert drawn[-1].marker.size > drawn[0].marker.size


def test_equal_accuracy_takes_the_fastest_sure_setting(table: pd.DataFrame) -> None:
    points = equal_accuracy_points(table, points=10)
    sliding = points[points["series"] == "mars-b8 · sliding_window"].iloc[0]
    assert sliding["qualifies"]
    assert sliding["tried"] > 3, "corrected for all that were tried, not for its series alone"
    assert sliding["threshold"] != 0.5
    margin = points[points["series"] == "mars-b8 · sliding_window · margin"].iloc[0]
    assert not margin["qualifies"]
    figure = equal_accuracy(table, points=10)
    assert figure.layout.minreducedheight < figure.layout.meta["plot_height"], "Plotly leaves its margins"
    assert not [label for label in figure.data[0].y if "margin" in label]
    assert "more without a setting" in figure.layout.annotations[-1].text.replace("<br>", " ")


def test_equal_accuracy_says_when_nothing_qualifies(table: pd.DataFrame) -> None:
    figure = equal_accuracy(table[table["threshold"] == 0.5], points=1)
    assert not figure.data
    assert figure.layout.annotations[0].text.replace("<br>", " ").startswith("No setting of the selection surely loses")


def test_exact_decoders_with_ars_text_need_no_test(table: pd.DataFrame) -> None:
    exact = table["decoder"] == "self_speculative"
    found = judged(table.assign(same_text=table["same_text"].where(~exact, 1.0)), points=0.1)
    assert set(found.loc[found["sure"], "decoder"]) <= {"self_speculative", "autoregressive"}
    assert found.loc[found["decoder"] == "self_speculative", "qualifies"].all()
    assert not found.loc[found["threshold"] == 0.5, "qualifies"].any()


@pytest.mark.parametrize("points", [2.0, 30.0])
def test_bound_and_decision_agree(table: pd.DataFrame, points: float) -> None:
    found = judged(table, points=points)
    tested = found[found["p_value"].notna()]
    assert list(tested["qualifies"]) == list(tested["loss_at_most"] <= points)


def test_measures_are_those_of_the_statistics(of: Any, store: RunStore, table: pd.DataFrame) -> None:
    row = of(table, "sliding_window", threshold=0.5)
    rows = store.rows(row["id"])
    for name, expected in (("accuracy", accuracy(rows)), ("tokens_per_forward", tokens_per_forward(rows))):
        assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(
            (expected.value, expected.low, expected.high)
        )
    assert (row["gained"], row["lost"], row["loss"]) == (0, 24, pytest.approx(30))
    assert row["loss_low"] < 30 < row["loss_high"]
    itself = table[table["id"] == row["baseline"]].iloc[0]
    assert (itself["points"], list(itself[["points_low", "loss_high"]].isna())) == (0, [True, True])


def test_values_that_differ_by_rounding_alone_are_one(fabricate: Any) -> None:
    place = {"batch_size": 4, "group": "plan/decoders"}
    runs = [fabricate.run(problems=150, **place), fabricate.run(fabricate.model("m"), problems=150, **place)]
    runs.append(fabricate.run(fabricate.model("m"), "sliding_window", problems=150, gain=2.0, **place))
    assert set(figures.measure(fabricate.store(runs))["speedup"]) == {1.0}


def test_texts_are_compared_on_own_weights_or_base(fabricate: Any) -> None:
    place = {"batch_size": 4, "group": "plan/decoders"}
    base = fabricate.model("base", stage="ar")
    adapted = fabricate.model("adapted") | {"base": base["fingerprint"]}
    runs = [fabricate.run(base, **place)]
    runs += [fabricate.run(model, "sliding_window", **place) for model in (adapted, fabricate.model("other"))]
    table = figures.measure(fabricate.store(runs)).set_index("model.name")
    assert table["ar_run"].nunique() == 1
    assert table["same_text"].notna().to_dict() == {"base": True, "adapted": True, "other": False}


def test_looks_differ_in_shape_and_colour() -> None:
    looks = [Look.number(index) for index in range(30)]
    assert len({(look.colour, look.symbol) for look in looks}) == 30
    assert len({(look.colour, look.dash) for look in looks}) == 30
    assert all(one.symbol != other.symbol for one, other in zip(looks, looks[8:], strict=False))
    assert Look.number(-1) == BASELINE


def test_models_of_one_name_are_told_apart(fabricate: Any) -> None:
    shipped, other = fabricate.model("mars-b8"), fabricate.model("mars-b8")
    other |= {"fingerprint": "f" * 16, "examples": 48_000}
    table = figures.measure(fabricate.store([fabricate.run(model, "sliding_window") for model in (shipped, other)]))
    assert sorted(table["series"]) == ["mars-b8 (0.1k) · sliding_window", "mars-b8 (48k) · sliding_window"]


def test_runs_on_other_tasks_are_another_series(fabricate: Any) -> None:
    mars = fabricate.model("mars-b8")
    runs = [fabricate.run(mars, "sliding_window", threshold=threshold) for threshold in (None, 0.9)]
    runs.append(fabricate.run(mars, "sliding_window", threshold=0.9, tasks=("gsm8k",), problems=500))
    table = figures.measure(fabricate.store(runs))
    assert set(table["series"]) == {"mars-b8 · sliding_window", "mars-b8 · sliding_window · gsm8k"}


def test_a_threshold_that_decides_nothing_is_none(fabricate: Any) -> None:
    run = fabricate.run(fabricate.model("m"), "self_speculative", threshold=0.95)
    assert figures.measure(fabricate.store([run]))["threshold"].isna().all()


def test_what_is_not_known_is_not_said(fabricate: Any) -> None:
    """No "nan" as the speed of AR, no "1 families", no minus before a zero."""
    runs = [fabricate.run(tasks=("ifeval",), problems=9)]
    runs.append(fabricate.run(fabricate.model("m"), "sliding_window", threshold=0.9, tasks=("ifeval",), problems=9))
    [words] = figures.measure(fabricate.store(runs)).query("decoder == 'sliding_window'")["hover"]
    assert "nan" not in words
    assert "n = 9 · IFEval" in words
    assert "accuracy against AR 0.0 [−" in words
