"""Decoders at equal accuracy: the fastest setting of each that surely loses less than so many points to AR."""

from __future__ import annotations

from textwrap import wrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import AXES, Axes, drawable, drawable_by
from analysis.figures.points import LOSS, PER_FORWARD
from analysis.figures.style import BLUE, GUIDE, NEUTRAL, WIDTH, Look, bar_marker, empty, finish
from analysis.figures.words import PUBLISHED, folded, joined, threshold_words
from analysis.stats.intervals import CONFIDENCE
from analysis.stats.operating_points import holm
from analysis.stats.pairs import PairedDifference

NAME = "equal accuracy"
POINTS = 1.0
_LABEL_WIDTH = 20
_GAP_BEFORE = "\u2003"
_BAR, _LINE, _GAP = 18, 14, 16


def equal_accuracy_points(table: pd.DataFrame, *, points: float = POINTS, against: str = PER_FORWARD) -> pd.DataFrame:
    """The bars of `equal_accuracy`, one a row, and the decoders without a setting that qualifies (`qualifies` False).

    `p_value` is for "it loses `points` or more", by the score test of `PairedDifference`, with Holm's correction over
    the settings tried in one series at one batch size.

    Raises:
        ValueError: the points are not between 0 and 100, or nothing of this name can be drawn against.
    """
    by = drawable_by(against)
    found = drawable(table[(table["source"] != PUBLISHED) & table[LOSS].notna()], Axes(x=against), by)
    chosen = []
    for _, rows in found.groupby(["series", *by], sort=False):
        corrected = [PairedDifference.of(row).loss_p_value(points) for row in rows.to_dict("records")]
        if len(corrected) > 1:  # where there is nothing to correct, the call would be the slowest of the figure
            corrected, _ = holm(corrected, 1 - CONFIDENCE)
        judged = rows.assign(p_value=corrected, tried=len(rows), qualifies=np.asarray(corrected) <= 1 - CONFIDENCE)
        chosen.append(judged.sort_values(["qualifies", against, "id"], ascending=[False, False, True]).head(1))
    if not chosen:
        return found.assign(p_value=[], tried=[], qualifies=[])
    best = pd.concat(chosen)
    order = best[against].where(best["qualifies"], 0).groupby(best["series"]).transform("max")
    return best.assign(order=order).sort_values(["order", "series", *by]).drop(columns="order").reset_index(drop=True)


def equal_accuracy(table: pd.DataFrame, *, points: float = POINTS, against: str = PER_FORWARD) -> go.Figure:
    """A bar for each series; against seconds one for each batch size.

    Raises:
        ValueError: as for `equal_accuracy_points`.
    """
    bars = equal_accuracy_points(table, points=points, against=against)
    if bars.empty:
        needed = "runs and an AR baseline on the same problems" + (", timed" if against != PER_FORWARD else "")
        return empty(f"Nothing to draw: this figure needs {needed}.", NAME)
    failed = [name for name, rows in bars.groupby("series", sort=False) if not rows["qualifies"].any()]
    if len(failed) == bars["series"].nunique():
        return empty(f"No setting of the selection surely loses less than {points:g} points.", NAME)
    bars = bars[~bars["series"].isin(failed)]
    figure = go.Figure()
    by = drawable_by(against)
    groups = list(bars.groupby(by, sort=True)) if by else [((0,), bars)]
    for index, ((size, *_), rows) in enumerate(groups):
        figure.add_trace(_bars(f"batch size {int(size)}" if by else "", rows, against, points, Look.number(index)))
    figure.add_vline(x=1, **GUIDE)
    labels = [folded(name, _LABEL_WIDTH) for name in dict.fromkeys(bars["series"])]
    figure.update_yaxes(categoryorder="array", categoryarray=labels, ticks="", showgrid=False, tickfont={"size": 12})
    figure.update_xaxes(title_text=AXES[against], rangemode="tozero")
    figure.update_layout(barmode="group", bargap=0.25, bargroupgap=0.06, showlegend=bool(by))
    if failed:
        words = f"not shown: {len(failed)} more without a setting that surely loses less than {points:g} points"
        figure.add_annotation(
            text="<br>".join(wrap(words, WIDTH)),
            xref="paper",
            yref="paper",
            x=1,
            y=1,
            xanchor="right",
            yanchor="bottom",
            align="right",
            showarrow=False,
            font={"size": 11, "color": NEUTRAL},
        )
    height = sum(max(_BAR * len(groups), _LINE * (label.count("<br>") + 1)) + _GAP for label in labels)
    return finish(figure, f"{NAME} {against}", plot_height=height)


def _bars(name: str, rows: pd.DataFrame, against: str, points: float, look: Look) -> go.Bar:
    unit = "" if against == PER_FORWARD else "×" if against == "speedup" else " tok/s"
    records = rows.to_dict("records")
    values = [row[against] if row["qualifies"] else 0 for row in records]
    # A short bar has no room for its words on a narrow page; beside it they begin behind the end of the interval.
    roomy = [value > max(values) / 2 for value in values]
    words = [
        joined(f"{row[against]:.2f}{unit}", threshold_words(row)) if row["qualifies"] else "none" for row in records
    ]
    return go.Bar(
        name=name,
        orientation="h",
        y=[folded(series, _LABEL_WIDTH) for series in rows["series"]],
        x=values,
        error_x={
            "type": "data",
            "array": [row[f"{against}_high"] - row[against] if row["qualifies"] else 0 for row in records],
            "arrayminus": [row[against] - row[f"{against}_low"] if row["qualifies"] else 0 for row in records],
            "color": NEUTRAL,
            "thickness": 1.5,
            "width": 3,
        },
        marker=bar_marker(look),
        text=[word if within else f"{_GAP_BEFORE}{word}" for word, within in zip(words, roomy, strict=True)],
        textposition=["inside" if within else "outside" for within in roomy],
        insidetextanchor="start",
        constraintext="none",
        textangle=0,
        cliponaxis=False,
        textfont={"size": 11},
        insidetextfont={"color": "#ffffff" if look.colour == BLUE else "#000000"},
        customdata=rows["id"].tolist(),
        hovertext=[f"{row['hover']}<br>{_tried(row, points)}" for row in records],
        hoverinfo="text",
    )


def _tried(row: dict[str, float], points: float) -> str:
    verdict = "surely" if row["qualifies"] else "not surely"
    tried = f"p = {row['p_value']:.2g}, settings tried: {int(row['tried'])}"
    return f"{verdict} less than {points:g} points lost<br>{tried}"
