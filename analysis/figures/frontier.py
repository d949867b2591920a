"""Accuracy against speed: a line for each series through its thresholds, and what can be drawn at all."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.figure import Figure
from analysis.figures.points import ACCURACY, AGREEMENT, PER_FORWARD, PER_SECOND, POINTS, SAME_TEXT
from analysis.figures.style import BASELINE, BASELINE_RANK, NEUTRAL, Look, empty, finish, translucent
from analysis.figures.words import folded
from mars import decoders

NAME = "frontier"
AXES = {
    ACCURACY: "accuracy (%)",
    POINTS: "accuracy against AR (points)",
    AGREEMENT: "tokens of its own one-token mode (%)",
    SAME_TEXT: "answers with the AR run's text (%)",
    PER_FORWARD: "tokens per forward",
    PER_SECOND: "output tokens/s",
}
LEGEND_WIDTH = 36


def height(table: pd.DataFrame) -> str:
    """The vertical measure: points to AR, or accuracy where no AR run answered these problems.

    If nobody judged these runs, the share of one-token mode's tokens, or else of AR's texts.
    """
    if table[ACCURACY].isna().all():
        return next((name for name in (AGREEMENT, SAME_TEXT) if table[name].notna().any()), ACCURACY)
    return POINTS if table[POINTS].notna().any() else ACCURACY


def drawable(table: pd.DataFrame, against: str) -> pd.DataFrame:
    """The rows that have both measures, one for each series and threshold: the one with most problems.

    They are sorted along the lines: from one-token mode to the most lenient threshold. ValueError where nothing of this
    name can be drawn against.
    """
    if against not in (PER_FORWARD, PER_SECOND):
        raise ValueError(f"against must be {PER_FORWARD} or {PER_SECOND}, got {against!r}")
    found = table[table[against].notna() & table[height(table)].notna()]
    lenient = found["threshold"].where(found["settings.score"] == "entropy", -found["threshold"])
    found = found.assign(lenient=lenient).sort_values(["rank", "lenient", "n", "id"], na_position="first")
    return found.drop_duplicates(["series", "threshold"], keep="last").drop(columns="lenient").reset_index(drop=True)


def frontier_points(table: pd.DataFrame, *, against: str = PER_FORWARD) -> pd.DataFrame:
    """The points of `frontier`, one a row; `best_by_value`: no other of these is as accurate and as fast.

    Compared are the points on as many problems as any, for tokens per forward without a draft model, whose passes are
    not counted.
    """
    points, y = drawable(table, against), height(table)
    rivals = points[points["n"] == points["n"].max()]
    if against == PER_FORWARD:
        rivals = rivals[~rivals["decoder"].isin([decoder.name for decoder in decoders.drafted()])]
    x_R, y_R = rivals[against].to_numpy(), rivals[y].to_numpy()
    best = {
        run: not ((x_R >= x) & (y_R >= up) & ((x_R > x) | (y_R > up))).any()
        for run, x, up in zip(rivals["id"], x_R, y_R, strict=True)
    }
    return points.assign(best_by_value=[best.get(run, False) for run in points["id"]])


def frontier(table: pd.DataFrame, *, against: str = PER_FORWARD) -> go.Figure:
    """Accuracy (`height`) against tokens per forward or per second, lines through the thresholds.

    `table` is (part of) what `measure` returns, of one batch size. ValueError where nothing of this name can be drawn
    against.
    """
    points, y = frontier_points(table, against=against), height(table)
    if points.empty:
        timed = "" if against == PER_FORWARD else "timed "
        return empty(f"Nothing to draw: this figure needs {timed}runs, and the selection has none.", NAME)
    figure = go.Figure()
    figure.update_xaxes(title_text=AXES[against])
    figure.update_yaxes(title_text=AXES[y], tickformat=None if y == POINTS else ".0%")
    if y == POINTS:
        figure.add_hline(y=0, line={"color": NEUTRAL, "width": 1.5, "dash": BASELINE.dash}, layer="below")
    ordered = points.assign(last=points["rank"] == BASELINE_RANK).sort_values(["last", "rank"], kind="stable")
    for name, rows in ordered.groupby("series", sort=False):
        figure.add_trace(_trace(str(name), rows, against, y))
    best = points[points["best_by_value"]]
    figure.add_scatter(
        name="frontier: no other as accurate and as fast",
        legendgroup="frontier",
        showlegend=True,
        x=best[against].tolist(),
        y=best[y].tolist(),
        mode="markers",
        marker={"symbol": "circle-open", "size": 17, "color": NEUTRAL, "line": {"width": 1.5}},
        hoverinfo="skip",
    )
    return finish(figure, f"{NAME} {against}")


def _trace(name: str, rows: pd.DataFrame, x: str, y: str) -> go.Scatter:
    look = Look.number(int(rows["rank"].iloc[0]))
    size = 13 if look == BASELINE else 8  # its cross shows behind and before the marks of others
    return go.Scatter(
        name=folded(name, LEGEND_WIDTH),
        legendgroup=name,
        showlegend=True,
        x=rows[x].tolist(),
        y=rows[y].tolist(),
        error_x=_errors(rows, x, look.colour),
        error_y=_errors(rows, y, look.colour),
        mode="lines+markers" if len(rows) > 1 else "markers",
        line={"color": look.colour, "width": 2, "dash": look.dash},
        marker={"color": look.colour, "size": size, "symbol": look.symbol},
        customdata=rows["id"].tolist(),
        hovertext=rows["hover"].tolist(),
        hoverinfo="text",
    )


def _errors(rows: pd.DataFrame, measure: str, colour: str) -> dict[str, Any]:
    """Error bars from the interval of `measure`; none where there is no interval."""
    return {
        "type": "data",
        "array": (rows[f"{measure}_high"] - rows[measure]).tolist(),
        "arrayminus": (rows[measure] - rows[f"{measure}_low"]).tolist(),
        "color": translucent(colour, 0.55),
        "thickness": 1.2,
        "width": 0,
    }


FRONTIER = Figure(
    question="How much accuracy do more tokens cost?",
    reading="Up is more accurate: the difference from AR on the same problems, in points, with its 95 % interval. For "
    "answers that are not scored, up is the share of tokens that equal those of one-token mode of the same weights:"
    " AR at 100 % writes its own model's text, exact decoding at 100 % that of MARS. Right is more tokens, per "
    "second or per forward pass. A line joins the measured thresholds of one decoder, one-token mode or the highest "
    "first; a decoder without a threshold is a single mark. Where answers are scored, the grey line at 0 is AR.",
    draw=frontier,
    points=frontier_points,
)
