"""What runs are compared with: for speed, and for accuracy."""

from typing import Any

import pandas as pd
import pytest

from analysis import figures


def test_speed_ups_are_over_ar_of_their_turn(of: Any, table: pd.DataFrame) -> None:
    for batch_size in (1, 4):
        row = of(table, "sliding_window", timed=True, batch_size=batch_size)
        assert row["speedup"] == pytest.approx(1.5)
        assert row["speedup_low"] == pytest.approx(1.5)
    untimed = of(table, "sliding_window", threshold=0.5)
    assert pd.isna(untimed["speedup"])
    assert pd.isna(untimed["tokens_per_second"])


def test_speed_ups_are_over_baseline_or_own_weights(of: Any, fabricate: Any) -> None:
    mars, timed = fabricate.model("mars-b8"), {"batch_size": 1, "group": "plan/group"}
    runs = [fabricate.run(model, **timed) for model in (fabricate.model("a-mars"), mars, fabricate.model("z-mars"))]
    runs.append(fabricate.run(mars, "sliding_window", threshold=0.9, **timed))
    assert of(figures.measure(fabricate.store(runs)), "sliding_window")["ar_run"] == runs[1][0]["id"]
    baseline = fabricate.run(**timed)
    assert of(figures.measure(fabricate.store([*runs, baseline])), "sliding_window")["ar_run"] == baseline[0]["id"]


def test_the_baseline_is_sft_on_the_same_problems(of: Any, fabricate: Any) -> None:
    mars = fabricate.model("mars-b8")
    runs = [
        fabricate.run(accuracy=0.5),
        fabricate.run({**fabricate.model("larger", "sft", None, None), "parameters": 2000}),
        fabricate.run(mars, "sliding_window", problems=20),
        fabricate.run(mars, "sliding_window", problems=60),
    ]
    entry, rows = fabricate.run(problems=100)
    runs.append(({**entry, "id": "of-another-seed", "seed": 8}, rows))
    table = figures.measure(fabricate.store(runs))
    part, more = of(table, "sliding_window", problems=20), of(table, "sliding_window", problems=60)
    assert part["baseline"] == runs[0][0]["id"]
    assert part["ar_accuracy"] == 1.0  # the first 20 problems of a family are among those that are right
    assert pd.isna(more["ar_accuracy"])
    assert of(table, "autoregressive", model__name="larger")["baseline"] == runs[1][0]["id"]


def test_baselines_in_bfloat16_are_of_the_same_kernels(of: Any, fabricate: Any) -> None:
    def run(name: str, *arguments: Any, hardware: str = "a CPU", **options: Any) -> Any:
        entry, rows = fabricate.run(*arguments, **options)
        return {**entry, "id": name, "dtype": "bfloat16", "hardware": hardware}, rows

    turn = {"batch_size": 1, "group": "plan/group"}
    runs = [run("elsewhere", problems=100, hardware="another CPU")]
    runs.append(run("mars", fabricate.model("mars-b8"), "sliding_window", **turn))
    assert pd.isna(of(figures.measure(fabricate.store(runs)), "sliding_window")["points"])
    runs += [run("here", problems=100), run("in-turns", **turn)]
    assert of(figures.measure(fabricate.store(runs)), "sliding_window")["baseline"] == "in-turns"


def test_timed_runs_take_their_accuracy_from_many(of: Any, fabricate: Any) -> None:
    mars = fabricate.model("mars-b8")
    timed = {"batch_size": 1, "group": "plan/group", "problems": 20}
    runs = [fabricate.run(problems=100), fabricate.run(**timed)]
    for threshold, accuracy in ((None, 0.9), (0.5, 0.5)):
        runs.append(fabricate.run(mars, "sliding_window", accuracy=accuracy, threshold=threshold, problems=100))
        runs.append(fabricate.run(mars, "sliding_window", accuracy=accuracy, threshold=threshold, **timed))
    runs.append(fabricate.run(mars, "self_speculative", **timed))
    table = figures.measure(fabricate.store(runs))
    row = of(table, "sliding_window", threshold=0.5, timed=True)
    assert (row["n"], row["own_n"], row["points"]) == (200, 40, -40.0)
    assert row["speedup"] == pytest.approx(1.0)
    exact = of(table, "self_speculative")
    assert (exact["n"], exact["points"]) == (200, 0.0), "one-token mode wrote its texts"
