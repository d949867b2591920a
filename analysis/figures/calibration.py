"""The calibration of scores: how often a mask proposal agrees with one-token mode, by score and depth."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import Axes, add_diagonal, errors, panels
from analysis.figures.points import PER_FORWARD
from analysis.figures.style import NEUTRAL, Look, drawn, empty, finish, rows_height, translucent
from analysis.figures.words import PUBLISHED, folded, measure_words
from analysis.runs import RunStore
from analysis.stats.calibration import reliability as bins_of

NAME = "reliability"
FEWEST = 10
DEPTHS = (1, 2, 3, 4, 6, 8)
COLUMNS = ("id", "series", "hover", "depth", "low", "high", "n", "share", "mean_score", "agreement")
_KEPT = ("id", "series", "hover", "settings.score")
_AXES = Axes(x=PER_FORWARD)
_DIAGONAL = {
    "line": {"color": NEUTRAL, "dash": "dot", "width": 1.5},
    "name": "right as often as sure",
    "legendgroup": "diagonal",
}


def reliability_points(runs: RunStore, table: pd.DataFrame) -> pd.DataFrame:
    """The points of `reliability`, one a row: a bin of scores at a depth, for each series that kept its proposals.

    Columns are those of `analysis.stats.calibration.reliability` and `share`, the share of this depth's proposals that
    lie in the bin. Of several runs of a series, the one on most problems counts. Runs scored by entropy, which is not a
    share, and bins of fewer than FEWEST proposals are left out.
    """
    measured = table[(table["source"] != PUBLISHED) & (table["settings.score"] != "entropy")]
    has = measured["id"].map(lambda run: runs.proposals(run) is not None).astype(bool)
    kept = measured[has].sort_values(["series", "n", "id"])
    frames = []
    for row in kept.drop_duplicates("series", keep="last").to_dict("records"):
        proposals = runs.proposals(row["id"])
        if proposals is not None:
            bins = bins_of(proposals[proposals["depth"].isin(DEPTHS)])
            shares = bins["n"] / bins.groupby("depth")["n"].transform("sum")
            frames.append(bins.assign(share=shares, **{name: row[name] for name in _KEPT})[bins["n"] >= FEWEST])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=COLUMNS)


def reliability(runs: RunStore, table: pd.DataFrame) -> go.Figure:
    """A panel for each depth: agreement against score with intervals, the diagonal, and where the proposals lie."""
    points = reliability_points(runs, table)
    if points.empty:
        return empty("Nothing to draw: no run of the selection kept its mask proposals.", NAME)
    shown = [depth for depth in DEPTHS if (points["depth"] == depth).any()]
    figure = panels([f"depth {depth}" for depth in shown], _AXES)
    looks = {run: Look.number(index) for index, run in enumerate(dict.fromkeys(points["id"]))}
    for index, depth in enumerate(shown):
        where = _AXES.place(index, len(shown))
        add_diagonal(figure, (0, 1), where, **_DIAGONAL, showlegend=index == 0)
        for run, bins in points[points["depth"] == depth].groupby("id", sort=False):
            there = {trace.legendgroup for trace in figure.data}
            figure.add_trace(_bars(str(run), bins, looks[run]), **where)
            figure.add_trace(_line(str(run), bins, looks[run], legend=run not in there), **where)
    last = _AXES.place(len(shown) - 1, len(shown))["row"]
    figure.update_xaxes(range=[-0.02, 1.04], tickvals=[0, 0.5, 1])
    figure.update_xaxes(title_text="score", row=last)
    figure.update_yaxes(range=[0, 1.04], tickformat=".0%")
    figure.update_yaxes(title_text="agrees (%)", col=1)
    figure.update_layout(barmode="overlay")
    return finish(figure, NAME, plot_height=rows_height(last))


def _line(run: str, bins: pd.DataFrame, look: Look, *, legend: bool) -> go.Scatter:
    words = [f"{_agreement(row)}<br>{row['hover']}" for row in bins.to_dict("records")]
    return go.Scatter(
        name=folded(bins["series"].iloc[0], 36),
        legendgroup=run,
        showlegend=legend,
        x=bins["mean_score"].tolist(),
        y=bins["agreement"].tolist(),
        error_y=errors(bins, "agreement", look.colour),
        **drawn(look, words, [run] * len(bins), size=7),
    )


def _bars(run: str, bins: pd.DataFrame, look: Look) -> go.Bar:
    """The share of the depth's proposals in each bin, on the axis of the shares that agree."""
    return go.Bar(
        legendgroup=run,
        showlegend=False,
        x=((bins["low"] + bins["high"]) / 2).tolist(),
        width=(bins["high"] - bins["low"]).tolist(),
        y=bins["share"].tolist(),
        marker={"color": translucent(look.colour, 0.25), "line": {"width": 0}},
        customdata=[run] * len(bins),
        hovertext=[f"{_scores(row)}: {row['share']:.1%} of the proposals" for row in bins.to_dict("records")],
        hoverinfo="text",
    )


def _agreement(row: dict[str, Any]) -> str:
    return f"{_scores(row)}: {measure_words(row, 'agreement', '.1f', 100)} % agree"


def _scores(row: dict[str, Any]) -> str:
    return f"depth {row['depth']}, score {row['low']:g} to {row['high']:g}, n = {row['n']:,}"
