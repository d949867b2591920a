"""Speed-up over AR by batch size on IFEval: at which batch each way of decoding stops paying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import errors
from analysis.figures.style import GUIDE, Look, drawn, empty, finish, plain
from analysis.runs import RunStore
from analysis.stats.turns import time_gain
from mars.decoders import BASELINE, EXACT

NAME = "batches"
TASK = "ifeval"
SPEEDUP = "speedup"
_SHARED = ("hardware", "dtype")
"""The columns that runs of several batch sizes must share to be drawn together."""


def batches_points(store: RunStore) -> pd.DataFrame:
    """One row for each setting and batch size, of the machine and answer length with most batch sizes.

    The speed-up is over the AR run of the same turns, its interval over turns, or over problems where there are too
    few.
    """
    plain_runs = {run["group"]: run for run in store.entries if _is_timed(run) and run["decoder"] == BASELINE}
    runs = [run for run in store.entries if _is_timed(run) and _label(run) and run["group"] in plain_runs]
    families: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        shared = *(run[name] for name in _SHARED), run["settings"]["max_new_tokens"], run["model"]["fingerprint"]
        families.setdefault(shared, []).append(run)
    chosen = max(families.values(), key=lambda family: len({run["batch_size"] for run in family}), default=[])
    rows = []
    for run in sorted(chosen, key=lambda run: run["problems"]):
        ours, theirs = (store.rows(each["id"]) for each in (run, plain_runs[run["group"]]))
        found = time_gain(ours, theirs)
        where = {"id": run["id"], "setting": _label(run), "batch_size": run["batch_size"], "n": run["problems"]}
        rows.append({**where, **found.columns(SPEEDUP), "hardware": run["hardware"]})
    points = pd.DataFrame(rows)
    if points.empty or points["batch_size"].nunique() < 2:
        return pd.DataFrame()
    return points.drop_duplicates(["setting", "batch_size"], keep="last").sort_values(
        ["setting", "batch_size"], ignore_index=True
    )


def batches(store: RunStore) -> go.Figure:
    """A line for each setting over the batch size."""
    points = batches_points(store)
    if points.empty:
        return empty("Nothing to draw: no setting took turns with AR at several batch sizes on IFEval.", NAME)
    figure = go.Figure()
    for index, (setting, part) in enumerate(points.groupby("setting", sort=False)):
        look = Look.number(index)
        figure.add_scatter(
            name=plain(setting),
            x=part["batch_size"].tolist(),
            y=part[SPEEDUP].tolist(),
            error_y=errors(part, SPEEDUP, look.colour),
            **drawn(look, [_hover(row) for row in part.to_dict("records")], part["id"].tolist(), size=9),
        )
    figure.add_hline(y=1, **GUIDE)
    sizes = sorted(set(points["batch_size"]))
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=[str(size) for size in sizes], title_text="batch size")
    figure.update_yaxes(title_text="speed-up over AR (×)", rangemode="tozero")
    return finish(figure, NAME)


def crossings(points: pd.DataFrame) -> dict[str, str]:
    """Of each setting, in words: between which batch sizes it becomes slower than AR."""
    found = {}
    for setting, part in points.groupby("setting", sort=False):
        sizes, gains = part["batch_size"].tolist(), part[SPEEDUP].tolist()
        ahead = [size for size, gain in zip(sizes, gains, strict=True) if gain > 1]
        behind = [size for size in sizes if size not in ahead and (not ahead or size > max(ahead))]
        if not ahead:
            found[str(setting)] = "slower than AR at every batch size"
        elif not behind:
            found[str(setting)] = f"faster than AR up to batch {max(ahead)}, the largest measured"
        else:
            found[str(setting)] = f"faster than AR up to batch {max(ahead)}, slower from {min(behind)} on"
    return found


def _is_timed(run: Mapping[str, Any]) -> bool:
    return list(run["tasks"]) == [TASK] and bool(run["group"])


def _label(run: Mapping[str, Any]) -> str:
    """The setting in words; nothing for what is not drawn here."""
    settings = run["settings"]
    if run["decoder"] == EXACT:
        return f"exact ({settings['layout']})"
    if run["decoder"] == "sliding_window" and settings["threshold"] is not None and settings["score"] == "probability":
        return f"τ = {settings['threshold']:g}"
    return ""


def _hover(row: Mapping[str, Any]) -> str:
    found = f"{row[SPEEDUP]:.2f} × AR [{row[f'{SPEEDUP}_low']:.2f}, {row[f'{SPEEDUP}_high']:.2f}]"
    return f"<b>{plain(row['setting'])}</b>, batch {row['batch_size']}, n = {row['n']}<br>{found}"
