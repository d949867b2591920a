"""Speed-up by batch size: which runs are taken, the intervals over turns, and the crossings in words."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import figures
from analysis.figures.batch_sizes import TASK, crossings
from analysis.runs import RunStore


def timed(fabricate: Any, batch_size: int, speed: float, *, length: int = 128, turns: int = 4) -> list[Any]:
    """Exact decoding of this speed, and AR of 100 tokens a second in its turns."""
    mars = fabricate.model("mars")
    rest = {"tasks": (TASK,), "batch_size": batch_size, "group": f"{batch_size}-{length}", "max_new_tokens": length}
    found = [
        fabricate.run(mars, speed=100.0, **rest),
        fabricate.run(mars, "self_speculative", speed=speed, layout="auto", **rest),
    ]
    return [(entry, rows.assign(turn=[place % turns for place in range(len(rows))])) for entry, rows in found]


@pytest.fixture
def store(fabricate: Any) -> RunStore:
    """Three batch sizes with answers of 128 tokens, one with longer ones."""
    runs = [timed(fabricate, size, speed) for size, speed in ((1, 200.0), (8, 120.0), (32, 50.0))]
    return fabricate.store([*(run for each in runs for run in each), *timed(fabricate, 1, 500.0, length=256)])


def test_a_line_is_of_comparable_runs(store: RunStore) -> None:
    points = figures.batches_points(store)
    assert points["batch_size"].tolist() == [1, 8, 32]
    assert points["speedup"].tolist() == pytest.approx([2.0, 1.2, 0.5])
    assert (points["speedup_low"] <= points["speedup"]).all()
    assert set(points["hardware"]) == {"a machine, 2 cores"}
    figure = figures.batches(store)
    assert [trace.name for trace in figure.data] == ["exact (auto)"]
    assert "batch 32, n = " in figure.data[0].hovertext[2]


def test_crossings_name_the_batch_sizes(store: RunStore) -> None:
    points = figures.batches_points(store)
    assert crossings(points) == {"exact (auto)": "faster than AR up to batch 8, slower from 32 on"}
    assert crossings(points[points["batch_size"] < 32])["exact (auto)"].endswith("up to batch 8, the largest measured")
    assert crossings(points[points["batch_size"] > 8])["exact (auto)"] == "slower than AR at every batch size"


def test_one_batch_size_is_no_line(fabricate: Any) -> None:
    figure = figures.batches(fabricate.store(timed(fabricate, 1, 200.0)))
    assert not figure.data
    assert figure.layout.annotations[0].text.startswith("Nothing to draw")
