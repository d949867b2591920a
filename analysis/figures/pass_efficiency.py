"""The worth in seconds of a gain in tokens per forward: speed-up against tokens per forward, by batch size."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import Axes, curves, drawable
from analysis.figures.points import PER_FORWARD, SPEEDUP
from analysis.figures.style import NEUTRAL, empty

NAME = "efficiency"
LIMIT = "limit: efficiency 1"
_AXES = Axes(x=PER_FORWARD, y=SPEEDUP)


def efficiency_points(table: pd.DataFrame) -> pd.DataFrame:
    """The points of `efficiency`, one a row; `efficiency` is speed-up over tokens per forward."""
    points = drawable(table, _AXES, ("batch_size",))
    return points.assign(efficiency=points[SPEEDUP] / points[PER_FORWARD])


def efficiency(table: pd.DataFrame, *, dark: bool = False) -> go.Figure:
    """Speed-up over AR against tokens per forward, a panel for each batch size; no point can lie above the limit
    unless its passes take less time than those of AR.
    """
    points = efficiency_points(table)
    if points.empty:
        return empty(
            "Nothing to draw: speed-ups need timed runs, and autoregressive ones in their group.", NAME, dark=dark
        )
    parts = [(f"batch size {int(size)}", part) for size, part in points.groupby("batch_size")]
    figure = curves(parts, _AXES, NAME, dark=dark)
    furthest = float(points[PER_FORWARD].max())
    for index in range(len(parts)):
        where = _AXES.place(index, len(parts))
        figure.add_shape(
            type="line",
            x0=1,
            y0=1,
            x1=furthest,
            y1=furthest,
            line={"color": NEUTRAL, "width": 2, "dash": "dash"},
            layer="below",
            name=LIMIT,
            legendgroup="limit",
            showlegend=index == 0,
            **where,
        )
        figure.add_hline(y=1, line={"color": NEUTRAL, "width": 1}, layer="below", **where)
    return figure
