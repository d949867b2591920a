"""A checked view of Trade-offs: a figure, its axis, the runs that are compared, and the accuracy budget in points."""

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from analysis.figures import FIGURES, POOLED
from mars.schema import Strict, bounds, checked

PER_SECOND, PER_FORWARD = "tokens_per_second", "tokens_per_forward"
AXES = {PER_SECOND: "throughput (tok/s)", PER_FORWARD: "tokens per forward"}
_FIRST = next(iter(FIGURES))

Text = Annotated[str, Field(max_length=200)]
FEWEST_POINTS, MOST_POINTS = 0.1, 50.0
POINTS = 2.0
"""Percentage points that a setting may lose unless the person says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Strict):
    """A view. `runs` names a set of runs that compare, empty for the first; `batch` is for throughput.

    What a link names and no list has any more, such as an old figure, is the first of its list (`of`, `drawing.draw`).
    """

    figure: str = _FIRST
    against: str = PER_SECOND
    task: Text = POOLED
    points: Annotated[float, bounds(FEWEST_POINTS, MOST_POINTS)] = POINTS
    runs: Text = ""
    batch: Annotated[int, bounds(1, 9_999)] = 1

    @classmethod
    def of(cls, question: object) -> "View":
        """A view from what the page sent; ValueError with one sentence that names the value and what is allowed."""
        view: View = checked(cls, question, "the view")
        return replace(
            view,
            figure=view.figure if view.figure in FIGURES else _FIRST,
            against=view.against if view.against in AXES else PER_SECOND,
        )
