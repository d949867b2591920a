"""What tells series apart, and what does not."""

from __future__ import annotations

from typing import Any

from analysis import figures
from analysis.figures.words import units_words


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


def test_the_units_of_a_cpu_are_named() -> None:
    names = {
        "AMD EPYC, 2 cores": "",
        "AMD EPYC, 2 cores, AVX512-BF16": "AVX512-BF16",
        "AMD EPYC, 2 cores, neither AMX nor AVX512-BF16": "no AMX",
        "Intel(R) Xeon(R) Processor, 2 cores, AMX": "AMX",
    }
    assert {hardware: units_words(hardware) for hardware in names} == names
