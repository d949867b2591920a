"""Tokens accepted in a pass: the share of passes by acceptance length, runs side by side."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.style import Look, bar_marker, empty, finish
from analysis.figures.words import PUBLISHED, folded, joined, threshold_words
from analysis.runs import RunStore

NAME = "acceptance"
LENGTH, PASSES, SHARE = "accepted", "counted", "share"


def acceptance_points(runs: RunStore, table: pd.DataFrame) -> pd.DataFrame:
    """The bars of `acceptance`, one a row: for each run and length the passes of that length and their share."""
    measured = table[table["source"] != PUBLISHED].drop_duplicates("id")
    counts = {run: _counts(runs.rows(run)["acceptance_lengths"]) for run in measured["id"]}
    bars = [
        {"id": run, LENGTH: length, PASSES: passes, SHARE: passes / sum(found)}
        for run, found in counts.items()
        if sum(found)
        for length, passes in enumerate(found, start=1)
    ]
    return pd.DataFrame(bars, columns=["id", LENGTH, PASSES, SHARE]).merge(measured, on="id", sort=False)


def acceptance(runs: RunStore, table: pd.DataFrame) -> go.Figure:
    """Share of passes that accepted 1, 2, 3, … tokens, for every run in `table`: give it only a handful."""
    points = acceptance_points(runs, table)
    if points.empty:
        return empty("Nothing to draw: the selection has no measured run.", NAME)
    figure = go.Figure()
    for index, (run, rows) in enumerate(points.groupby("id", sort=False)):
        first, look = rows.iloc[0], Look.number(index)
        name = joined(first["series"], threshold_words(first))
        figure.add_trace(
            go.Bar(
                name=folded(name, 36),
                x=rows[LENGTH].tolist(),
                y=rows[SHARE].tolist(),
                marker=bar_marker(look),
                customdata=[run] * len(rows),
                hovertext=[_words(row) for row in rows.to_dict("records")],
                hoverinfo="text",
            )
        )
    figure.update_xaxes(title_text="accepted tokens of a pass", dtick=1)
    figure.update_yaxes(title_text="passes (%)", tickformat=".0%")
    figure.update_layout(barmode="group", bargap=0.2)
    return finish(figure, NAME)


def _counts(lengths: pd.Series) -> list[int]:
    return [int(sum(passes)) for passes in zip_longest(*lengths, fillvalue=0)]


def _words(row: dict[str, Any]) -> str:
    return f"{row[SHARE]:.1%} of passes accept {row[LENGTH]} (n = {row[PASSES]:,})<br>{row['hover']}"
