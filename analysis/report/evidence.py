"""What the figures of the report are drawn from, and which runs are comparable. No torch."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.points import PER_FORWARD
from analysis.figures.words import PUBLISHED
from analysis.runs import RunStore

FAMILY_MEASURES = (PER_FORWARD,)
"""All that figures by family need to be measured, beside accuracies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A figure of the report; `points` are the numbers drawn, one row a mark. The caption says how to read it.

    Figures of one `chapter` follow each other.
    """

    name: str
    title: str
    caption: str
    points: pd.DataFrame
    figure: go.Figure
    chapter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The store, its measured table with what was published below it, and the same with a row for each family."""

    runs: RunStore
    table: pd.DataFrame
    by_family: pd.DataFrame


def usual(table: pd.DataFrame) -> pd.DataFrame:
    """Measured greedy runs that are scored by probability and offer no further proposal."""
    rows = table[table["source"] != PUBLISHED]
    return rows[
        (rows["settings.score"] == "probability")
        & (rows["settings.extra_proposal"] == False)  # noqa: E712 - the column is of objects
        & (rows["settings.temperature"] == 0)
    ]


def of_shown(rows: pd.DataFrame) -> pd.Series:
    """Which rows are of the MARS model with most runs, or of no MARS model at all."""
    mars = rows[rows["model.stage"] == "mars"]
    return (rows["model.stage"] != "mars") | (rows["model"] == (mars["model"].mode()[0] if len(mars) else ""))
