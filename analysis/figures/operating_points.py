"""Decoders at equal accuracy: the fastest setting of each that surely loses less than so many points to AR."""

from __future__ import annotations

from textwrap import wrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures.figure import Figure
from analysis.figures.frontier import AXES, drawable
from analysis.figures.points import LOSS, PER_FORWARD, SAME_TEXT
from analysis.figures.style import BLUE, GUIDE, NEUTRAL, WIDTH, empty, finish
from analysis.figures.words import folded, joined, threshold_words
from analysis.stats.intervals import CONFIDENCE
from analysis.stats.pairs import PairedDifference, holm
from mars import decoders

NAME = "equal accuracy"
POINTS = 1.0
_LABEL_WIDTH = 20
_GAP = "\u2002"
_BAR, _LINE, _BETWEEN = 18, 14, 16
_SAME = [decoder.name for decoder in decoders.TABLE.values() if decoder.exact or decoder.name == decoders.BASELINE]


def judged(table: pd.DataFrame, *, points: float, against: str = PER_FORWARD) -> pd.DataFrame:
    """The settings of `table` that can be drawn against a measure, and whether each is within a budget of accuracy.

    `sure` is true of AR and exact decoders that wrote AR's text in every answer: they lose nothing. Of the others
    `p_value` is for "it loses `points` or more", by the score test of `PairedDifference`, with Holm's correction over
    the `tried` ones; `loss_at_most` is the upper limit of the loss at the level of that test. Where nobody judged the
    answers only AR's text is known to lose nothing. In tokens per forward, settings with a draft model are left out:
    its passes are not counted. Rows that were judged before, among more, keep what they got. ValueError where the
    points are not between 0 and 100, or nothing of this name can be drawn against.
    """
    if "qualifies" in table:
        return table
    known = table[LOSS].notna() | table[SAME_TEXT].notna()
    if against == PER_FORWARD:
        known &= ~table["decoder"].isin([decoder.name for decoder in decoders.drafted()])
    found = drawable(table[known], against)
    scored = found[LOSS].notna()
    sure = (found[SAME_TEXT] == 1) & (found["decoder"].isin(_SAME) | ~scored)
    found = found.assign(sure=sure, qualifies=sure, p_value=np.nan, loss_at_most=np.nan, tried=0)
    rows = found[scored & ~sure]
    differences = [PairedDifference.of(row) for row in rows.to_dict("records")]
    if differences:
        corrected, levels = holm([difference.loss_p_value(points) for difference in differences], 1 - CONFIDENCE)
        most = [each.loss_at_most(1 - level) for each, level in zip(differences, levels, strict=True)]
        told = np.column_stack([corrected, most, [len(rows)] * len(rows)])
        found.loc[rows.index, ["p_value", "loss_at_most", "tried"]] = told
        found.loc[rows.index, "qualifies"] = np.asarray(corrected) <= 1 - CONFIDENCE
    return found


def equal_accuracy_points(table: pd.DataFrame, *, points: float = POINTS, against: str = PER_FORWARD) -> pd.DataFrame:
    """The bars of `equal_accuracy`, one a row, and decoders without a setting that qualifies (`qualifies` False).

    ValueError as of `judged`.
    """
    found = judged(table, points=points, against=against)
    found = found.sort_values(["qualifies", against, "id"], ascending=[False, False, True])
    best = found.drop_duplicates("series")
    return (
        best.assign(order=best[against].where(best["qualifies"], 0))
        .sort_values(["order", "series"])
        .drop(columns="order")
        .reset_index(drop=True)
    )


def equal_accuracy(table: pd.DataFrame, *, points: float = POINTS, against: str = PER_FORWARD) -> go.Figure:
    """A bar for each series, the fastest at the top; ValueError as for `equal_accuracy_points`."""
    bars = equal_accuracy_points(table, points=points, against=against)
    if bars.empty:
        needed = "runs and an AR baseline on the same problems" + (", timed" if against != PER_FORWARD else "")
        return empty(f"Nothing to draw: this figure needs {needed}.", NAME)
    failed = int((~bars["qualifies"]).sum())
    bars = bars[bars["qualifies"]]
    if bars.empty:
        return empty(f"No setting of the selection surely loses less than {points:g} points.", NAME)
    figure = go.Figure(_bars(bars, against, points))
    if against == PER_FORWARD:
        figure.add_vline(x=1, **GUIDE)
    labels = [folded(name, _LABEL_WIDTH) for name in bars["series"]]
    figure.update_yaxes(categoryorder="array", categoryarray=labels, ticks="", showgrid=False, tickfont={"size": 12})
    figure.update_xaxes(title_text=AXES[against], rangemode="tozero")
    figure.update_layout(bargap=0.25, showlegend=False)
    if failed:
        words = f"not shown: {failed} more without a setting that surely loses less than {points:g} points"
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
    height = sum(max(_BAR, _LINE * (label.count("<br>") + 1)) + _BETWEEN for label in labels)
    return finish(figure, f"{NAME} {against}", plot_height=height)


def _bars(rows: pd.DataFrame, against: str, points: float) -> list[go.Bar | go.Scatter]:
    unit = "" if against == PER_FORWARD else " tok/s"
    records, ends = rows.to_dict("records"), rows[f"{against}_high"].fillna(rows[against])
    names = [folded(series, _LABEL_WIDTH) for series in rows["series"]]
    # A short bar has no room for its words on a narrow page; beside it they begin behind the end of the interval.
    roomy = rows[against] > rows[against].max() / 2
    words = pd.Series([joined(f"{row[against]:.2f}{unit}", threshold_words(row)) for row in records], rows.index)
    bars = go.Bar(
        orientation="h",
        y=names,
        x=rows[against].tolist(),
        error_x={
            "type": "data",
            "array": (ends - rows[against]).tolist(),
            "arrayminus": (rows[against] - rows[f"{against}_low"]).tolist(),
            "color": NEUTRAL,
            "thickness": 1.5,
            "width": 3,
        },
        marker={"color": BLUE},
        text=words.where(roomy, "").tolist(),
        textposition="inside",
        insidetextanchor="start",
        constraintext="none",
        textangle=0,
        cliponaxis=False,
        insidetextfont={"size": 11, "color": "#ffffff"},
        customdata=rows["id"].tolist(),
        hovertext=[f"{row['hover']}<br>{_tried(row, points)}" for row in records],
        hoverinfo="text",
    )
    beside = go.Scatter(
        mode="text",
        y=names,
        x=ends.tolist(),
        text=[f"{_GAP}{word}" for word in words.where(~roomy, "")],
        textposition="middle right",
        textfont={"size": 11},
        cliponaxis=False,
        hoverinfo="skip",
    )
    return [bars, beside]


def _tried(row: dict[str, float], points: float) -> str:
    if row["sure"]:
        return "AR's own text in every answer: nothing is lost"
    verdict = "surely" if row["qualifies"] else "not surely"
    tried = f"p = {row['p_value']:.2g}, settings tried: {int(row['tried'])}"
    return f"{verdict} less than {points:g} points lost<br>{tried}"


EQUAL_ACCURACY = Figure(
    question="Which decoder gains most within the accuracy budget?",
    reading="For each decoder, the setting with the most tokens that is within the budget with 95 % confidence, by "
    "a score test on the same problems as AR, corrected for all settings tried. An exact decoder that wrote AR's "
    "text in every answer needs no test.",
    draw=equal_accuracy,
    points=equal_accuracy_points,
    budget=True,
)
