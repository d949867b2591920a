"""What the page asks to see, checked: a figure, its axis, a selection, and how many points may be lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.figures import POOLED
from app.runs.checks import choice, fields, items, mapping, number, text
from app.tradeoffs.filters import FILTERS

LONGEST = 200
MOST_VALUES = 200
FEWEST_POINTS, MOST_POINTS = 0.1, 50.0
POINTS = 2.0
"""Percentage points that a setting may lose unless the person says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`chosen` None is the selection that the figure starts with; `published` names the layer, empty for none."""

    figure: str
    against: str
    chosen: Mapping[str, tuple[str, ...]] | None = None
    task: str = POOLED
    published: str = ""
    points: float = POINTS

    @classmethod
    def of(cls, asked: object, figures: Collection[str], measures: Collection[str]) -> View:
        """From what the page sent.

        Raises:
            ValueError: one sentence that names the value and what is allowed.
        """
        found = fields(asked, "the view", ("figure", "against"), ("chosen", "task", "published", "points"))
        points = found.get("points", POINTS)
        return cls(
            figure=choice(found["figure"], "figure", figures),
            against=choice(found["against"], "against", measures),
            chosen=_chosen(found.get("chosen")),
            task=text(found.get("task", POOLED), "task", LONGEST),
            published=text(found.get("published", ""), "published", LONGEST),
            points=number(points, "The points that may be lost", FEWEST_POINTS, MOST_POINTS),
        )


def _chosen(value: Any) -> dict[str, tuple[str, ...]] | None:
    if value is None:
        return None
    names = [each.name for each in FILTERS]
    return {
        choice(name, "filter", names): tuple(text(item, name, LONGEST) for item in items(values, name, MOST_VALUES))
        for name, values in mapping(value, "chosen").items()
    }
