"""What tells series apart, and what does not."""

from typing import Any

from analysis import figures


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
