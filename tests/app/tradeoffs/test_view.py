from typing import Any

import pytest

from analysis.figures import FIGURES
from app.tradeoffs.drawing import View

PLAIN: dict[str, Any] = {"figure": "frontier", "against": "tokens_per_second"}


def test_a_view_is_read() -> None:
    view = View.of({**PLAIN, "points": 1, "batch": 4})
    assert (view.figure, view.against, view.points, view.batch) == ("frontier", "tokens_per_second", 1.0, 4)


def test_each_figure_has_a_question_and_an_answer() -> None:
    assert all(figure.question.endswith("?") for figure in FIGURES.values())
    assert all(figure.reading.endswith(".") for figure in FIGURES.values())


@pytest.mark.parametrize("figure", ["caching", "load"])
def test_links_of_before_open_the_first_figure(figure: str) -> None:
    assert View.of({**PLAIN, "figure": figure}) == View.of(PLAIN)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"figure": 1}, "figure must be text"),
        ({"figure": "pie"}, "figure must be one of frontier"),
        ({"against": "colour"}, "against must be one of"),
        ({"points": float("nan")}, "points must be a number from 0.1 to 50"),
        ({"batch": 0}, "batch must be a whole number from 1"),
        ({"runs": None}, "runs must be"),
        ({"runs": "\ud800"}, "the view must be valid Unicode"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_anything_else_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        View.of({**PLAIN, **change})
