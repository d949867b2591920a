"""Accuracy against speed: all runs in one panel, a panel for each family, or one for each setting with several scores;
and the speed-up that a gain in tokens per forward brings.
"""

from __future__ import annotations

from typing import get_args

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import Axes, Part, add_diagonal, curves, drawable, drawable_by
from analysis.figures.points import ACCURACY, PER_FORWARD, SAME_TEXT, SPEEDUP
from analysis.figures.style import NEUTRAL, empty
from analysis.figures.words import PUBLISHED, series_words
from analysis.stats.frontiers import Standing, standings
from analysis.stats.intervals import Interval
from mars import decoders
from mars.config import ScoreName

FRONTIER, FAMILIES, SCORES, EFFICIENCY = "frontier", "families", "scores", "efficiency"
LIMIT = "limit: efficiency 1"
_PASSES = Axes(x=PER_FORWARD, y=SPEEDUP)
_TIMED = "timed runs, and autoregressive ones in their group"


def height(table: pd.DataFrame) -> str:
    """The vertical measure of the frontier: accuracy, or the share of AR's texts if nobody judged these runs."""
    return SAME_TEXT if table[ACCURACY].isna().all() and table[SAME_TEXT].notna().any() else ACCURACY


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
    """Accuracy against tokens per forward, tokens per second or speed-up, lines through the thresholds.

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
    return drawable(table, Axes(x=against), ("task",))


def families(table: pd.DataFrame, *, against: str = PER_FORWARD) -> go.Figure:
    """The frontier in a panel for each family; `table` has a row for each run and family."""
    points = families_points(table, against=against)
    if points.empty:
        return empty("Nothing to draw: the selection has no runs with a row for each family.", FAMILIES)
    tasks = [task for task in dict.fromkeys(table["task"]) if (points["task"] == task).any()]
    return curves([(task, points[points["task"] == task]) for task in tasks], Axes(x=against), FAMILIES)


def scores_points(table: pd.DataFrame) -> pd.DataFrame:
    """The points of `scores`, one a row: the settings that were run with more than one score."""
    points = drawable(table, Axes(x=PER_FORWARD))
    alike = [series_words({**row, "settings.score": "probability"}) for row in points.to_dict("records")]
    points = points.assign(setting=alike)
    several = points.groupby("setting")["settings.score"].transform("nunique") > 1
    return points[several].reset_index(drop=True)


def scores(table: pd.DataFrame) -> go.Figure:
    """Probability, margin and entropy as the score that is compared with the threshold, a panel for each setting."""
    points = scores_points(table)
    if points.empty:
        return empty("Nothing to draw: the selection has no setting that was run with two scores.", SCORES)
    names = get_args(ScoreName)
    points = points.assign(series=points["settings.score"], rank=points["settings.score"].map(names.index))
    parts = [(str(setting), part) for setting, part in points.groupby("setting")]
    return curves(parts, Axes(x=PER_FORWARD), SCORES)


def efficiency_points(table: pd.DataFrame) -> pd.DataFrame:
    """The points of `efficiency`, one a row; `efficiency` is speed-up over tokens per forward."""
    points = drawable(table, _PASSES, ("batch_size",))
    return points.assign(efficiency=points[SPEEDUP] / points[PER_FORWARD])


def efficiency(table: pd.DataFrame) -> go.Figure:
    """Speed-up over AR against tokens per forward, a panel for each batch size; no point can lie above the limit
    unless its passes take less time than those of AR.
    """
    points = efficiency_points(table)
    if points.empty:
        return empty("Nothing to draw: speed-ups need timed runs, and autoregressive ones in their group.", EFFICIENCY)
    parts = [(f"batch size {int(size)}", part) for size, part in points.groupby("batch_size")]
    figure = curves(parts, _PASSES, EFFICIENCY)
    furthest = float(points[PER_FORWARD].max())
    for index in range(len(parts)):
        where = _PASSES.place(index, len(parts))
        line = {"color": NEUTRAL, "width": 2, "dash": "dash"}
        add_diagonal(figure, (1, furthest), where, line=line, name=LIMIT, legendgroup="limit", showlegend=index == 0)
        figure.add_hline(y=1, line={"color": NEUTRAL, "width": 1}, layer="below", **where)
    return figure


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
