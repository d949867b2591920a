"""The cost of a pass by its columns: its milliseconds, and the least time to read the weights and to compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import errors
from analysis.figures.style import NEUTRAL, Look, drawn, empty, finish, plain

NAME = "pass_cost"
_ENDS = {"low": "milliseconds_low", "high": "milliseconds_high"}
READING, COMPUTING = "limit: reading the weights", "limit: computing"


def pass_cost_points(measured: Mapping[str, Any] | None) -> pd.DataFrame:
    """One row a width of a file of `python -m analysis columns`, in milliseconds; none without a file.

    `reading` and `computing` are the roofline of the same machine: bytes of the weights over its read bandwidth, and
    operations of the columns over the rate of a large product. They are NaN if the file has no roofline.
    """
    if measured is None:
        return pd.DataFrame()
    roof = measured.get("roofline") or {}
    reading = 1000 * roof["weight_bytes"] / roof["bytes_per_second"] if roof else float("nan")
    column = 1000 * roof["operations_per_column"] / roof["operations_per_second"] if roof else float("nan")
    rows = [
        {
            "columns": each["columns"],
            "milliseconds": 1000 * each["seconds"],
            "low": 1000 * each["low"],
            "high": 1000 * each["high"],
            "reading": reading,
            "computing": column * each["columns"],
        }
        for each in measured["times"]
    ]
    first = rows[0]["milliseconds"]
    return pd.DataFrame([row | {"against_one": row["milliseconds"] / first} for row in rows])


def pass_cost(measured: Mapping[str, Any] | None) -> go.Figure:
    """Milliseconds of a pass against its columns, with the two limits of the machine."""
    points = pass_cost_points(measured)
    if measured is None or points.empty:
        return empty("Nothing to draw: no passes were timed. Run python -m analysis columns.", NAME)
    name = plain(f"{measured['checkpoint']}, {measured['dtype']}")
    columns = points["columns"].tolist()
    look = Look.number(0)
    words = [
        f"{row['columns']} column{'' if row['columns'] == 1 else 's'}<br>{row['milliseconds']:.1f} ms "
        f"[{row['low']:.1f}, {row['high']:.1f}], {row['against_one']:.2f}× one column"
        for row in points.to_dict("records")
    ]
    figure = go.Figure(
        go.Scatter(
            name=name,
            x=columns,
            y=points["milliseconds"].tolist(),
            error_y=errors(points.rename(columns=_ENDS), "milliseconds", look.colour, alone=True),
            **drawn(look, words),
        )
    )
    for column, label, dash in (("reading", READING, "dash"), ("computing", COMPUTING, "dot")):
        if points[column].notna().all():
            figure.add_scatter(
                name=label,
                x=columns,
                y=points[column].tolist(),
                mode="lines",
                line={"color": NEUTRAL, "width": 2, "dash": dash},
                hoverinfo="skip",
            )
    figure.update_xaxes(title_text="columns of a pass", rangemode="tozero")
    figure.update_yaxes(title_text="milliseconds", rangemode="tozero")
    return finish(figure, NAME)
