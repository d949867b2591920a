"""One measure against another: a line for each series through its thresholds, in one panel or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.points import (
    ACCURACY,
    AGREEMENT,
    AR_ACCURACY,
    PER_FORWARD,
    PER_SECOND,
    POINTS,
    SAME_TEXT,
    SPEEDUP,
)
from analysis.figures.style import (
    BASELINE,
    BASELINE_RANK,
    NEUTRAL,
    TITLE_HEIGHT,
    Look,
    drawn,
    finish,
    plain,
    rows_height,
    translucent,
)
from analysis.figures.words import PUBLISHED, cut, folded

AXES = {
    ACCURACY: "accuracy (%)",
    POINTS: "accuracy against AR (points)",
    AGREEMENT: "tokens of one-token mode (%)",
    SAME_TEXT: "answers with the AR run's text (%)",
    PER_FORWARD: "tokens per forward",
    PER_SECOND: "output tokens/s",
    SPEEDUP: "speed-up over AR (×)",
}
BAND = "AR baseline, 95 % band"
SPEEDS = (PER_FORWARD, PER_SECOND, SPEEDUP)
LEGEND_WIDTH = 36
COLUMNS = 2
"""Panels beside each other."""

Part = tuple[str, pd.DataFrame]
"""A panel: its title, which is of the data, and its points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The measures that are drawn."""

    x: str
    y: str = ACCURACY

    def __post_init__(self) -> None:
        for name, value in (("x", self.x), ("y", self.y)):
            if value not in AXES:
                raise ValueError(f"{name} must be one of {', '.join(AXES)}, got {value!r}")

    @staticmethod
    def place(index: int, panels: int) -> dict[str, Any]:
        """Row and column of a panel, from 1."""
        columns = min(COLUMNS, panels)
        return {"row": index // columns + 1, "col": index % columns + 1}


def drawable(table: pd.DataFrame, axes: Axes, by: Sequence[str] = ()) -> pd.DataFrame:
    """The rows that have both measures, one for each series, threshold and value of `by`: the one with most problems.

    They are sorted along the lines: from one-token mode to the most lenient threshold.
    """
    found = table[table[axes.x].notna() & table[axes.y].notna()]
    lenient = found["threshold"].where(found["settings.score"] == "entropy", -found["threshold"])
    found = found.assign(lenient=lenient).sort_values(["rank", "lenient", "n", "id"], na_position="first")
    once = ["series", "threshold", *by]
    return found.drop_duplicates(once, keep="last").drop(columns="lenient").reset_index(drop=True)


def drawable_by(against: str) -> list[str]:
    """The columns that, beside series and threshold, distinguish points: the batch size if the measure is a time.

    Raises:
        ValueError: nothing of this name can be drawn against.
    """
    if against not in SPEEDS:
        raise ValueError(f"against must be one of {', '.join(SPEEDS)}, got {against!r}")
    return [] if against == PER_FORWARD else ["batch_size"]


def curves(parts: Sequence[Part], axes: Axes, name: str) -> go.Figure:
    """A panel for every part, whose axes zoom together; `name` names the figure in its `uirevision`."""
    figure = panels([title for title, _ in parts], axes)
    for index, (_, table) in enumerate(parts):
        where = axes.place(index, len(parts))
        if axes.y == ACCURACY:
            add_baseline(figure, table, where)
        elif axes.y == POINTS:
            line = {"color": NEUTRAL, "width": 1.5, "dash": BASELINE.dash}
            figure.add_hline(y=0, line=line, layer="below", exclude_empty_subplots=False, **where)
        _add_series(figure, table, axes, where)
    height = rows_height(axes.place(len(parts) - 1, len(parts))["row"])
    return finish(figure, f"{name} {axes.x}", plot_height=height)


def panels(titles: Sequence[str], axes: Axes) -> go.Figure:
    """Empty panels with these titles and the titles of the axes."""
    last = axes.place(len(titles) - 1, len(titles))
    columns, rows = min(COLUMNS, len(titles)), last["row"]
    figure = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes="all",
        shared_yaxes="all",
        subplot_titles=[plain(cut(title)) for title in titles] if len(titles) > 1 else None,
        horizontal_spacing=0.05,
        vertical_spacing=TITLE_HEIGHT / rows_height(rows),
    )
    figure.update_annotations(font_size=13)
    for column in range(1, columns + 1):
        figure.update_xaxes(title_text=AXES[axes.x], row=rows, col=column)
    for row in range(1, rows + 1):
        figure.update_yaxes(title_text=AXES[axes.y], row=row, col=1)
    if axes.y in (ACCURACY, SAME_TEXT, AGREEMENT):
        figure.update_yaxes(tickformat=".0%")
    return figure


def errors(rows: pd.DataFrame, measure: str, colour: str, *, alone: bool = False) -> dict[str, Any]:
    """Error bars from the interval of `measure`; none where there is no interval. Stronger for a series `alone`."""
    faint = {"color": translucent(colour, 0.55), "thickness": 1.2, "width": 0}
    return {
        "type": "data",
        "array": (rows[f"{measure}_high"] - rows[measure]).tolist(),
        "arrayminus": (rows[measure] - rows[f"{measure}_low"]).tolist(),
        **({"color": colour, "thickness": 1.5} if alone else faint),
    }


def add_diagonal(figure: go.Figure, ends: tuple[float, float], where: dict[str, Any], **look: Any) -> None:
    """A line below the marks on which x and y are the same, from the first of the ends to the second."""
    low, high = ends
    figure.add_shape(type="line", x0=low, y0=low, x1=high, y1=high, layer="below", **look, **where)


def _add_series(figure: go.Figure, table: pd.DataFrame, axes: Axes, where: dict[str, Any]) -> None:
    """Measured series first, AR over all of them; a series is in the legend once, however many panels it is in."""
    theirs, last = table["source"] == PUBLISHED, table["rank"] == BASELINE_RANK
    ordered = table.assign(theirs=theirs, last=last).sort_values(["theirs", "last", "rank"], kind="stable")
    for name, rows in ordered.groupby("series", sort=False):
        there = {trace.legendgroup for trace in figure.data}
        figure.add_trace(_trace(str(name), rows, axes, legend=name not in there), **where)


def _trace(name: str, rows: pd.DataFrame, axes: Axes, *, legend: bool) -> go.Scatter:
    look, theirs = Look.number(int(rows["rank"].iloc[0])), rows["source"].iloc[0] == PUBLISHED
    if theirs:
        look = replace(look, symbol=f"{look.symbol}-open", dash="dot")
    size = 13 if look == BASELINE else 8  # its cross shows behind and before the marks of others
    marks = drawn(look, rows["hover"].tolist(), rows["id"].tolist(), size=size, width=1.2 if theirs else 2)
    return go.Scatter(
        name=folded(name, LEGEND_WIDTH),
        legendgroup=name,
        showlegend=legend,
        x=rows[axes.x].tolist(),
        y=rows[axes.y].tolist(),
        error_x=errors(rows, axes.x, look.colour),
        error_y=errors(rows, axes.y, look.colour),
        opacity=0.9 if theirs else 1,
        **marks | ({} if len(rows) > 1 else {"mode": "markers"}),
    )


def add_baseline(figure: go.Figure, table: pd.DataFrame, where: dict[str, Any]) -> None:
    """The accuracy of the AR baseline on the problems of `table` as a line across, with its interval as a band."""
    known = table[table[AR_ACCURACY].notna()]
    if known.empty:
        return
    row = known.loc[known["n"].idxmax()]
    low, high = row[f"{AR_ACCURACY}_low"], row[f"{AR_ACCURACY}_high"]
    shared = {"layer": "below", "legendgroup": BAND, "exclude_empty_subplots": False, **where}
    figure.add_hrect(y0=low, y1=high, fillcolor=translucent(NEUTRAL, 0.18), line_width=0, **shared)
    figure.add_hline(
        y=row[AR_ACCURACY],
        line={"color": NEUTRAL, "width": 1.5, "dash": BASELINE.dash},
        name=BAND,
        showlegend=not any(shape.showlegend for shape in figure.layout.shapes),
        **shared,
    )
