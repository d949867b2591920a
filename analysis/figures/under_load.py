"""Requests that arrive at random: goodput and the waiting times of users, against the arrivals a second."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.style import BASELINE, GUIDE, Look, empty, finish, plain, rows_height
from analysis.figures.words import measure_words
from analysis.runs.loads import LoadTest, Outcome
from analysis.stats.intervals import Interval, share
from analysis.stats.pairs import PairedDifference

NAME = "load"
BASELINE_LANE = "ar"
BURSTS = "bursts"
POINTS = "points"
"""The column of the difference of accuracy to AR."""
LABELS = {
    "ar": "AR",
    "narrow": "narrow layout",
    "linear": "linear layout",
    "tree": "tree layout",
    "lookup": "lookup layout",
    "copy": "copies alone",
    "quadratic": "quadratic layout",
    "table": "table by rows",
    "tau": "τ = 0.95",
    "exact": "policy exact",
    "knob": "policy knob",
}
PANELS = (
    ("goodput", "goodput (requests/s in time)"),
    ("ttft", "time to first token (s)"),
    ("tpot", "time per further token (s)"),
)
_TICKS = [digit * 10.0**power for power in range(-4, 4) for digit in (1, 2, 5)]
"""Seconds, each written in full: Plotly writes 2 for 0.02 and for 0.2."""
_ENDS = (("p50", "solid", 1.0), ("p99", "dot", 0.7))


def under_load_points(test: LoadTest) -> pd.DataFrame:
    """One row a lane and trace; times in seconds, NaN if no answer got so far.

    The interval of goodput is Wilson's of the share in time, given the arrivals. It takes requests as independent.
    """
    lanes = list(dict.fromkeys(one.lane for one in test.results))
    ranks = {lane: place for place, lane in enumerate(name for name in lanes if name != BASELINE_LANE)}
    rows = []
    for one in test.results:
        ttft, tpot = one.ttft or (float("nan"),) * 2, one.tpot or (float("nan"),) * 2
        rows.append(
            {
                "lane": one.lane,
                "series": LABELS.get(one.lane, one.lane),
                "rank": ranks.get(one.lane, -1),
                "load": one.load,
                "offered": one.offered,
                "requests": one.requests,
                "refused": one.refused,
                **_goodput(one).columns("goodput"),
                "tokens_per_second": one.tokens_per_second,
                "ttft_p50": ttft[0],
                "ttft_p99": ttft[1],
                "tpot_p50": tpot[0],
                "tpot_p99": tpot[1],
                "wrong": one.wrong,
                "right": one.right,
                "judged": one.judged,
                **points_against_ar(one).columns(POINTS),
                "pairs": one.against_ar.n if one.against_ar else 0,
            }
        )
    return pd.DataFrame(rows)


def points_against_ar(one: Outcome) -> Interval:
    """The accuracy minus that of AR's answers to the same arrivals, in points with its score interval; NaN unpaired."""
    found = one.against_ar
    return PairedDifference(n=found.n, gained=found.gained, lost=found.lost).score_interval() if found else Interval()


def _goodput(one: Outcome) -> Interval:
    if not one.requests:
        return Interval(one.goodput)
    rate = share(one.in_time, one.requests).scaled(one.offered)
    return Interval(one.goodput, rate.low, rate.high)


def under_load(test: LoadTest) -> go.Figure:
    """Three panels, one line a lane through the Poisson traces; crosses are bursts of the same mean rate."""
    points = under_load_points(test)
    if points["requests"].sum() == 0:
        return empty("Nothing to draw: no request was made.", NAME)
    figure = make_subplots(rows=3, cols=1, vertical_spacing=0.09)
    for row, (name, title) in enumerate(PANELS, start=1):
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row)
        figure.update_xaxes(title_text="requests/s that arrive" if row == 3 else None, rangemode="tozero", row=row)
        if name != "goodput":
            figure.update_yaxes(type="log", tickvals=_TICKS, ticktext=[f"{tick:g}" for tick in _TICKS], row=row)
            figure.add_hline(y=getattr(test.limits, name), row=row, col=1, **GUIDE)
        for _, rows in points.groupby("rank", sort=True):
            for trace in _traces(rows, name, legend=row == 1):
                figure.add_trace(trace, row=row, col=1)
    for row in range(1, 4):
        figure.add_vline(x=test.saturation, row=row, col=1, **GUIDE, line_dash="dot")
    return finish(figure, NAME, plot_height=rows_height(3))


def _traces(rows: pd.DataFrame, name: str, *, legend: bool) -> list[go.Scatter]:
    """The lines of a lane in one panel: goodput, or p50 and p99 of a time; the bursts are marks beside them."""
    lane = str(rows["series"].iloc[0])
    look = BASELINE if rows["rank"].iloc[0] < 0 else Look.number(int(rows["rank"].iloc[0]))
    shown = [("", "solid", 1.0)] if name == "goodput" else list(_ENDS)
    found = []
    for end, dash, opacity in shown:
        column = f"{name}_{end}" if end else name
        for bursts in (False, True):
            part = rows[(rows["load"] == BURSTS) == bursts].sort_values("offered")
            part = part[part[column].notna()]
            if part.empty:
                continue
            found.append(
                go.Scatter(
                    name=plain(lane),
                    legendgroup=lane,
                    showlegend=legend and not bursts,
                    x=part["offered"].tolist(),
                    y=part[column].tolist(),
                    mode="markers" if bursts else "lines+markers",
                    line={"color": look.colour, "width": 2, "dash": dash},
                    marker={"color": look.colour, "size": 8, "symbol": "x" if bursts else look.symbol},
                    opacity=opacity,
                    hovertext=[_hover(row, end) for row in part.to_dict("records")],
                    hoverinfo="text",
                )
            )
    return found


def _hover(row: dict[str, Any], end: str) -> str:
    arrived = "bursts" if row["load"] == BURSTS else f"{row['load']} of saturation"
    in_time = measure_words(row, "goodput", ".2f")
    lines = [
        f"<b>{plain(row['series'])}</b>, {plain(arrived)}",
        f"{row['requests']} requests, {row['offered']:.2f} a second; {in_time} a second in time",
        f"first token p50 {row['ttft_p50']:.3f} s, p99 {row['ttft_p99']:.3f} s",
        f"further tokens p50 {row['tpot_p50']:.4f} s, p99 {row['tpot_p99']:.4f} s",
    ]
    if row["pairs"]:
        lines.append(f"accuracy against AR {measure_words(row, POINTS, '+.1f')} points, n = {row['pairs']}")
    return "<br>".join([*lines, end] if end else lines)
