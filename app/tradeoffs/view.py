"""A checked view of Trade-offs: a figure, its axis, the runs that are compared, and the accuracy budget in points."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from analysis.figures import FIGURES, POOLED
from mars.schema import Strict, bounds, checked, one_of

PER_SECOND, PER_FORWARD = "tokens_per_second", "tokens_per_forward"
AXES = {PER_SECOND: "throughput (tok/s)", PER_FORWARD: "tokens per forward"}
_FIRST = next(iter(FIGURES))
_FORMER_FIGURES = ("efficiency", "acceptance", "ablation", "scores", "caching", "reliability", "load", "families")
_FORMER_FIELDS = ("chosen", "published", "more")
"""Of links and scripts from before: these are ignored, and the first figure takes the place of those that are gone."""

Text = Annotated[str, Field(max_length=200)]
MOST_BATCH = 4096
FEWEST_POINTS, MOST_POINTS = 0.1, 50.0
POINTS = 2.0
"""Percentage points that a setting may lose unless the person says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Strict):
    """A view. `runs` names a set of runs that compare, empty for the first; `batch` is for throughput."""

    figure: str = _FIRST
    against: str = PER_SECOND
    task: Text = POOLED
    points: Annotated[float, bounds(FEWEST_POINTS, MOST_POINTS)] = POINTS
    runs: Text = ""
    batch: Annotated[int, bounds(1, MOST_BATCH)] = 1

    @classmethod
    def of(cls, question: object) -> "View":
        """A view from what the page sent; ValueError with one sentence that names the value and what is allowed."""
        if isinstance(question, Mapping):
            question = {name: value for name, value in question.items() if name not in _FORMER_FIELDS}
            if question.get("figure") in _FORMER_FIGURES:
                question["figure"] = _FIRST
        view: View = checked(cls, question, "the view")
        checked(one_of(FIGURES), view.figure, "figure")
        checked(one_of(AXES), view.against, "against")
        return view
