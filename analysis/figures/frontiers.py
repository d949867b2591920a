"""Accuracy against speed: all runs in one panel, or a panel for each family."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import Axes, Part, curves, drawable, drawable_by
from analysis.figures.points import ACCURACY, AGREEMENT, PER_FORWARD, POINTS, SAME_TEXT
from analysis.figures.style import NEUTRAL, empty
from analysis.figures.words import PUBLISHED
from analysis.stats.frontiers import Standing, standings
from analysis.stats.intervals import Interval
from mars import decoders

FRONTIER, FAMILIES = "frontier", "families"
_TIMED = "timed runs, and autoregressive ones in their group"


def height(table: pd.DataFrame) -> str:
    """The vertical measure: points to AR, or accuracy beside the paper's, whose problems are unknown.

    If nobody judged these runs, the share of one-token mode's tokens, or else of AR's texts.
    """
    if table[ACCURACY].isna().all():
        return next((name for name in (AGREEMENT, SAME_TEXT) if table[name].notna().any()), ACCURACY)
    measured = table[table["source"] != PUBLISHED]
    return POINTS if len(measured) == len(table) and measured[POINTS].notna().any() else ACCURACY


def frontier_points(table: pd.DataFrame, *, against: str = PER_FORWARD) -> pd.DataFrame:
    """The points of `frontier`, one a row.

    `standing` is that of `analysis.stats.Standing` among the comparable points of the panel: measured, on as many
    problems as any, and for tokens per forward without a draft model, whose passes are not counted. `best_by_value`
    says that no other of these points is as accurate and as fast.
    """
    by, axes = drawable_by(against), Axes(x=against, y=height(table))
    points = drawable(table, axes, by)
    groups = points.groupby(by) if by else [(None, points)]
    found = {run: standing for _, part in groups for run, standing in _standings(part, axes).items()}
    return points.assign(
        standing=[found[run].state if run in found else None for run in points["id"]],
        best_by_value=[run in found and found[run].best_by_value for run in points["id"]],
    )


def frontier(table: pd.DataFrame, *, against: str = PER_FORWARD) -> go.Figure:
    """Accuracy (`height`) against tokens per forward, per second or speed-up, lines through the thresholds.

    `table` is (part of) what `measure` returns. Against seconds there is a panel for each batch size.

    Raises:
        ValueError: nothing of this name can be drawn against.
    """
    points = frontier_points(table, against=against)
    if points.empty:
        needed = "runs" if against == PER_FORWARD else _TIMED
        return empty(f"Nothing to draw: this figure needs {needed}, and the selection has none.", FRONTIER)
    parts: list[Part] = [("", points)]
    if against != PER_FORWARD:
        parts = [(f"batch size {int(size)}", part) for size, part in points.groupby("batch_size")]
    axes = Axes(x=against, y=height(table))
    figure = curves(parts, axes, FRONTIER)
    for index, (_, part) in enumerate(parts):
        _add_rings(figure, part, axes, index, len(parts))
    return figure


def families_points(table: pd.DataFrame, *, against: str = PER_FORWARD) -> pd.DataFrame:
    """The points of `families`, one a row."""
    return drawable(table, Axes(x=against, y=height(table)), ("task",))


def families(table: pd.DataFrame, *, against: str = PER_FORWARD) -> go.Figure:
    """The frontier in a panel for each family; `table` has a row for each run and family."""
    points = families_points(table, against=against)
    if points.empty:
        return empty("Nothing to draw: the selection has no runs with a row for each family.", FAMILIES)
    tasks = [task for task in dict.fromkeys(table["task"]) if (points["task"] == task).any()]
    return curves(
        [(task, points[points["task"] == task]) for task in tasks], Axes(x=against, y=height(table)), FAMILIES
    )


def _standings(points: pd.DataFrame, axes: Axes) -> dict[str, Standing]:
    measured = points[(points["source"] != PUBLISHED) & (points["n"] == points["n"].max())]
    if axes.x == PER_FORWARD:
        measured = measured[~measured["decoder"].isin([decoder.name for decoder in decoders.drafted()])]
    rows = measured.to_dict("records")
    return standings({row["id"]: [Interval.of(row, name) for name in (axes.y, axes.x)] for row in rows})


def _add_rings(figure: go.Figure, points: pd.DataFrame, axes: Axes, index: int, panels: int) -> None:
    """Add a ring around the points that no other point matches in both measures."""
    best = points[points["best_by_value"]]
    figure.add_trace(
        go.Scatter(
            name="frontier: no other as accurate and as fast",
            legendgroup="frontier",
            showlegend=index == 0,
            x=best[axes.x].tolist(),
            y=best[axes.y].tolist(),
            mode="markers",
            marker={"symbol": "circle-open", "size": 17, "color": NEUTRAL, "line": {"width": 1.5}},
            hoverinfo="skip",
        ),
        **axes.place(index, panels),
    )
