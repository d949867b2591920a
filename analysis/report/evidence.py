"""The runs behind the figures of the report, and the comparable ones among them. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.words import PUBLISHED
from analysis.runs import RunStore


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
    """The store, and its measured table with what was published below it.

    `pass_times` is what `python -m analysis columns` wrote, None where nothing was timed;
    `categories` are those of Spec-Bench's questions, by number.
    """

    runs: RunStore
    table: pd.DataFrame
    pass_times: Mapping[str, Any] | None = None
    categories: Mapping[int, str] = field(default_factory=dict)


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
