"""The table: measures with their intervals."""

from typing import Any

import pandas as pd
import pytest

from analysis import figures
from analysis.runs import RunStore
from analysis.stats.resampling import accuracy, tokens_per_forward


def test_measures_are_those_of_the_statistics(of: Any, store: RunStore, table: pd.DataFrame) -> None:
    row = of(table, "sliding_window", threshold=0.5)
    rows = store.rows(row["id"])
    for name, expected in (("accuracy", accuracy(rows)), ("tokens_per_forward", tokens_per_forward(rows))):
        assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(
            (expected.value, expected.low, expected.high)
        )
    assert (row["gained"], row["lost"], row["loss"]) == (0, 24, pytest.approx(30))
    assert row["loss_low"] < 30 < row["loss_high"]


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


def test_a_store_without_runs_gives_an_empty_table() -> None:
    assert figures.measure(RunStore()).empty
