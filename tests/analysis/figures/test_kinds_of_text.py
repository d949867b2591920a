"""Exact decoding by kind of text: which runs are taken, and both ratios to AR for each category."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import figures
from analysis.figures.kinds_of_text import TASK
from analysis.runs import RunStore

CATEGORIES = {number: "coding" if number < 6 else "writing" for number in range(12)}


def spec_bench(fabricate: Any, problems: int, gain: float, group: str | None) -> list[Any]:
    timed = {"tasks": (TASK,), "problems": problems, "batch_size": 1, "group": group}
    mars = fabricate.model("mars")
    return [
        fabricate.run(mars, speed=100.0, **timed),
        fabricate.run(mars, "self_speculative", gain=gain, speed=150.0, layout="tree", **timed),
    ]


@pytest.fixture
def store(fabricate: Any) -> RunStore:
    """Exact decoding beside AR, on few questions and on more, and where nobody took turns."""
    few, more, alone = (
        spec_bench(fabricate, problems, gain, group)
        for problems, gain, group in ((4, 5.0, "few"), (12, 2.0, "more"), (12, 5.0, None))
    )
    assert len({entry["id"] for entry, _ in [*few, *more, *alone]}) == 6
    return fabricate.store([*few, *more, *alone])


def test_the_run_with_most_questions_beside_ar_is_drawn(store: RunStore) -> None:
    points = figures.kinds_points(store, CATEGORIES).set_index("category")
    assert points["n"].to_dict() == {"coding": 6, "writing": 6}
    assert store.rows(points["id"].iloc[0])["passes"].sum() < store.rows(points["id"].iloc[0])["tokens"].sum()
    assert points["speedup"].tolist() == pytest.approx([1.5, 1.5])
    assert set(points["hardware"]) == {"a machine, 2 cores"}
    for name in ("tokens_per_forward", "speedup"):
        assert (points[f"{name}_low"] <= points[name]).all()
        assert (points[name] <= points[f"{name}_high"]).all()
    rows = store.rows(points["id"].iloc[0])
    coding = rows[rows["number"] < 6]
    assert points.loc["coding", "tokens_per_forward"] == pytest.approx(coding["tokens"].sum() / coding["passes"].sum())


def test_both_ratios_stand_on_one_axis(store: RunStore) -> None:
    figure = figures.kinds(store, CATEGORIES)
    assert [trace.name for trace in figure.data] == ["tokens per forward", "speed-up over AR"]
    assert set(figure.data[0].y) == {"code", "writing"}
    assert all("n = 6" in text for text in figure.data[1].hovertext)


def test_without_turns_the_figure_says_so(fabricate: Any) -> None:
    figure = figures.kinds(fabricate.store(spec_bench(fabricate, 4, 2.0, None)), CATEGORIES)
    assert not figure.data
    assert figure.layout.annotations[0].text.startswith("Nothing to draw")
