"""A checked view: a figure, its axis, a selection of runs by filters, and the accuracy budget in points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from analysis.figures import POOLED
from analysis.figures.words import PUBLISHED, Row, heeds_threshold, missing, natural
from mars.schema import Strict, bounds, checked, one_of

MOST_VALUES = 200
MOST_BATCH = 4096
Text = Annotated[str, Field(max_length=200)]
FEWEST_POINTS, MOST_POINTS = 0.1, 50.0
POINTS = 2.0
"""Percentage points that a setting may lose unless the person says otherwise."""
Chosen = Mapping[str, Sequence[str]]
"""Values by the name of the filter; a filter without values, or without an entry, leaves all through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A property of runs; `value` gives it in words, equal words for equal values."""

    name: str
    label: str
    value: Callable[[Row], str]


def _scale(row: Row) -> str:
    size = row["model.parameters"]
    for unit, name in ((1e9, "B"), (1e6, "M")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:.0f} {name}"
    return f"{int(size):,}"


def _block_size(row: Row) -> str:
    size = row["model.block_size"]
    return "no blocks" if missing(size) else f"B = {int(size)}"


def _sft_loss(row: Row) -> str:
    loss = row["model.sft_loss"]
    return "not of masks" if missing(loss) else "with SFT loss" if loss else "without SFT loss"


def _score(row: Row) -> str:
    return str(row["settings.score"]) if heeds_threshold(row) else "no threshold"


FILTERS = (
    Filter(name="scale", label="Parameters", value=_scale),
    Filter(name="checkpoint", label="Checkpoint", value=lambda row: str(row["model"])),
    Filter(name="block_size", label="Trained block size", value=_block_size),
    Filter(name="sft_loss", label="SFT loss", value=_sft_loss),
    Filter(name="decoder", label="Decoder", value=lambda row: str(row["decoder"])),
    Filter(name="score", label="Score", value=_score),
    Filter(name="batch_size", label="Batch size", value=lambda row: f"{int(row['batch_size'])}"),
    Filter(name="hardware", label="Hardware", value=lambda row: f"{row['hardware']} ({row['device']})"),
)


def facets(table: pd.DataFrame) -> pd.DataFrame:
    """The measured rows of `table`: for each filter a column of its name with the value in words."""
    records = table[table["source"] != PUBLISHED].to_dict("records")
    index = table.index[table["source"] != PUBLISHED]
    return pd.DataFrame(
        {each.name: [each.value(row) for row in records] for each in FILTERS}, index=index, dtype=object
    )


def known(found: pd.DataFrame, chosen: Chosen) -> dict[str, list[str]]:
    """`chosen` without the values that no run has any more."""
    kept = {
        each.name: [value for value in chosen.get(each.name, ()) if (found[each.name] == value).any()]
        for each in FILTERS
    }
    return {name: values for name, values in kept.items() if values}


def through(found: pd.DataFrame, chosen: Chosen, but: str = "") -> pd.Series:
    """True for the rows of the facets that pass all filters, except the one called `but`."""
    passes = pd.Series(data=True, index=found.index, dtype=bool)
    for name, values in chosen.items():
        if values and name != but:
            passes &= found[name].isin(list(values))
    return passes


def options(found: pd.DataFrame, chosen: Chosen) -> list[dict[str, Any]]:
    """For the page: each filter with a choice, its values, the number of runs that each would show, the chosen ones."""
    shown = []
    for each in FILTERS:
        counts = found.loc[through(found, chosen, each.name), each.name].value_counts()
        values = sorted(found[each.name].unique(), key=natural)
        if len(values) > 1:
            listed = [
                {"value": value, "count": int(counts.get(value, 0)), "on": value in chosen.get(each.name, ())}
                for value in values
            ]
            shown.append({"name": each.name, "label": each.label, "options": listed})
    return shown


def words(chosen: Chosen) -> str:
    """The chosen values in a line; empty without a filter."""
    labels = {each.name: each.label for each in FILTERS}
    return " · ".join(f"{labels[name]}: {', '.join(values)}" for name, values in chosen.items() if values)


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Strict):
    """A view. `chosen` None is the figure's first selection; `published` names the layer, empty for none.

    `runs` names a set of runs that compare, empty for the first; `batch` is the batch size for throughput; `more` asks
    for every series in place of a handful.
    """

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
        """A view from what the page sent; ValueError with one sentence that names the value and what is allowed."""
        view: View = checked(cls, question, "the view")
        checked(one_of(figures), view.figure, "figure")
        checked(one_of(measures), view.against, "against")
        for name in view.chosen or ():
            checked(one_of(each.name for each in FILTERS), name, "filter")
        return view
