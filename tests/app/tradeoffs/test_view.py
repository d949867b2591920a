from __future__ import annotations

from typing import Any

import pytest

from app.tradeoffs.catalogue import AXES, FIGURES
from app.tradeoffs.view import View

PLAIN: dict[str, Any] = {"figure": "frontier", "against": "tokens_per_second"}


def test_a_view_is_read() -> None:
    view = View.of({**PLAIN, "chosen": {"decoder": ["jacobi"]}, "points": 1}, FIGURES, AXES)
    assert (view.figure, view.against, view.chosen, view.points) == (
        "frontier",
        "tokens_per_second",
        {"decoder": ("jacobi",)},
        1.0,
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"figure": "pie"}, "figure must be one of frontier"),
        ({"figure": ["frontier"]}, "figure must be text"),
        ({"against": "colour"}, "against must be one of"),
        ({"points": float("nan")}, "points must be a number from 0.1 to 50"),
        ({"points": 0}, "got 0"),
        ({"batch": 0}, "batch must be a whole number from 1"),
        ({"more": 1}, "more must be true or false"),
        ({"runs": None}, "runs must be"),
        ({"chosen": []}, "chosen must be an object"),
        ({"chosen": {"mood": ["good"]}}, "filter must be one of scale"),
        ({"chosen": {"decoder": "jacobi"}}, "decoder must be a list"),
        ({"chosen": {"decoder": [None]}}, r"decoder\[0\] must be text"),
        ({"task": 1}, "task must be text"),
        ({"published": "\ud800"}, "the view must be valid Unicode"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_anything_else_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        View.of({**PLAIN, **change}, FIGURES, AXES)
