"""A checked view: a figure, its axis, a selection, and the accuracy budget in points."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from analysis.figures import POOLED
from app.tradeoffs.filters import FILTERS
from mars.schema import STRICT, bounds, checked, one_of

MOST_VALUES = 200
MOST_BATCH = 4096
Text = Annotated[str, Field(max_length=200)]
FEWEST_POINTS, MOST_POINTS = 0.1, 50.0
POINTS = 2.0
"""Percentage points that a setting may lose unless the person says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view. `chosen` None is the figure's first selection; `published` names the layer, empty for none.

    `runs` names a set of runs that compare, empty for the first; `batch` is the batch size for throughput; `more` asks
    for every series in place of a handful.
    """

    __pydantic_config__ = STRICT

    figure: str
    against: str
    chosen: Mapping[str, Annotated[tuple[Text, ...], Field(max_length=MOST_VALUES)]] | None = None
    task: Text = POOLED
    published: Text = ""
    points: Annotated[float, bounds(FEWEST_POINTS, MOST_POINTS)] = POINTS
    runs: Text = ""
    batch: Annotated[int, bounds(1, MOST_BATCH)] = 1
    more: bool = False

    @classmethod
    def of(cls, question: object, figures: Collection[str], measures: Collection[str]) -> View:
        """From what the page sent.

        Raises:
            ValueError: one sentence that names the value and what is allowed.
        """
        view: View = checked(cls, question, "the view")
        checked(one_of(figures), view.figure, "figure")
        checked(one_of(measures), view.against, "against")
        for name in view.chosen or ():
            checked(one_of(each.name for each in FILTERS), name, "filter")
        return view
