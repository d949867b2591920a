"""Exact decoding by category and kind of text: which runs are taken, the kinds, and both ratios to AR for each."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import figures
from analysis.figures.kinds_of_text import TASK, kind_of
from analysis.runs import RunStore

CATEGORIES = {number: "math" if number < 12 else "writing" for number in range(24)}
CODE = "So:\n```python\npass\n```"


def spec_bench(fabricate: Any, problems: int, gain: float, group: str | None, layout: str = "auto") -> list[Any]:
    """Exact decoding beside AR; both write code to the first two questions, prose to the others."""
    timed = {"tasks": (TASK,), "problems": problems, "batch_size": 1, "group": group}
    mars = fabricate.model("mars")
    found = [
        fabricate.run(mars, speed=100.0, **timed),
        fabricate.run(mars, "self_speculative", gain=gain, speed=150.0, layout=layout, **timed),
    ]
    return [
        (entry, rows.assign(text=[CODE if number < 2 else "So." for number in rows["number"]])) for entry, rows in found
    ]


@pytest.fixture
def store(fabricate: Any) -> RunStore:
    """Exact decoding beside AR, on few questions with other drafts and on more, and where nobody took turns."""
    few, more, alone = (
        spec_bench(fabricate, problems, gain, group, layout)
        for problems, gain, group, layout in (
            (4, 5.0, "few", "tree"),
            (24, 2.0, "more", "auto"),
            (24, 5.0, None, "auto"),
        )
    )
    assert len({entry["id"] for entry, _ in [*few, *more, *alone]}) == 6
    return fabricate.store([*few, *more, *alone])


def test_the_run_with_most_questions_beside_ar_is_drawn(store: RunStore) -> None:
    points = figures.kinds_points(store, CATEGORIES)
    points = points[points["by"] == "category"].set_index("name")
    assert points["n"].to_dict() == {"math": 12, "writing": 12}
    assert points["speedup"].tolist() == pytest.approx([1.5, 1.5])
    assert set(points["hardware"]) == {"a machine, 2 cores"}
    for name in ("tokens_per_forward", "speedup"):
        assert (points[f"{name}_low"] <= points[name]).all()
        assert (points[name] <= points[f"{name}_high"]).all()
    rows = store.rows(points["id"].iloc[0])
    maths = rows[rows["number"] < 12]
    assert points.loc["math", "tokens_per_forward"] == pytest.approx(maths["tokens"].sum() / maths["passes"].sum())


def test_kinds_of_text_are_of_every_draft_with_intervals_where_there_are_enough(store: RunStore) -> None:
    points = figures.kinds_points(store, CATEGORIES)
    found = points[points["by"] == "kind of text"].set_index(["drafts", "name"])
    assert found["n"].to_dict() == {
        ("auto", "code"): 2,
        ("auto", "maths"): 10,
        ("auto", "prose"): 12,
        ("tree", "code"): 2,
        ("tree", "maths"): 2,
    }
    assert found["speedup"].tolist() == pytest.approx([1.5] * 5)
    assert (found["speedup_low"].notna() == (found["n"] >= 8)).all()
    first = store.rows(found.loc[("auto", "code"), "id"])[:2]
    assert found.loc[("auto", "code"), "tokens_per_forward"] == pytest.approx(
        first["tokens"].sum() / first["passes"].sum()
    )


@pytest.mark.parametrize(
    ("text", "category", "kind"),
    [
        ("1. one\n2. two\n\n```\n3\n```", "math", "code"),
        ("Three:\n- one\n  - two\n* three", "math", "list"),
        ("1) one\n2) two\n10) three", "qa", "list"),
        ("- one\n- two\n-3 is less than 1.5", "math_reasoning", "maths"),
        ("**1.5** of 3\n2024 was\n- two\n- three", "writing", "prose"),
    ],
)
def test_a_fence_is_code_and_three_items_are_a_list(text: str, category: str, kind: str) -> None:
    assert kind_of(text, category) == kind


def test_both_ratios_stand_on_one_axis(store: RunStore) -> None:
    figure = figures.kinds(store, CATEGORIES)
    assert [trace.name for trace in figure.data] == ["tokens per forward", "speed-up over AR"] * 2
    assert set(figure.data[0].y) == {"maths, n = 12", "writing, n = 12"}
    assert "prose, auto, n = 12" in figure.data[2].y
    assert all("n = 12" in text for text in figure.data[1].hovertext)
    assert [note.text for note in figure.layout.annotations] == ["by category", "by kind of text"]


def test_without_categories_there_are_kinds_alone(store: RunStore) -> None:
    assert [note.text for note in figures.kinds(store, {}).layout.annotations] == ["by kind of text"]


def test_the_words_name_most_and_least_and_the_cpu(store: RunStore) -> None:
    points = figures.kinds_points(store, CATEGORIES)
    words = figures.kinds_words(points)
    assert words.startswith("By value, auto gains most on ")
    assert "n = 10)" in words
    assert "n = 12)" in words
    assert "code" not in words
    amx = figures.kinds_words(points.assign(hardware="a Xeon, 2 cores, AMX"))
    assert amx.endswith(" Measured with AMX.")
    assert amx.partition(" Measured")[0] == words.partition(" Measured")[0]


def test_without_turns_the_figure_says_so(fabricate: Any) -> None:
    figure = figures.kinds(fabricate.store(spec_bench(fabricate, 4, 2.0, None)), CATEGORIES)
    assert not figure.data
    assert figure.layout.annotations[0].text.startswith("Nothing to draw")
