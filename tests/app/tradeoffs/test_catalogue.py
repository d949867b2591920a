"""Each figure is described once, for the report and for Trade-offs."""

from __future__ import annotations

from analysis import figures
from analysis.figures.catalogue import DESCRIPTIONS
from app.tradeoffs.catalogue import FIGURES


def test_every_figure_is_described_and_asks_one_question() -> None:
    drawn = {name.removesuffix("_points") for name in figures.__all__ if name.endswith("_points")}
    assert set(DESCRIPTIONS) == drawn
    assert set(FIGURES) < drawn
    for description in DESCRIPTIONS.values():
        assert description.question.endswith("?")
        assert description.reading.endswith(".")


def test_the_note_of_a_view_comes_last() -> None:
    frontier = FIGURES["frontier"]
    assert frontier.label == DESCRIPTIONS["frontier"].title
    assert frontier.caption == DESCRIPTIONS["frontier"].caption(
        "Rings mark settings that no other beats; the star is the answer above."
    )
    assert DESCRIPTIONS["scores"].caption().startswith("Does the choice of acceptance score matter? Each line")
