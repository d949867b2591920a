"""The effect of the cache block size: speed-up over AR by cache block size and batch size, as a heat map."""

from __future__ import annotations

from math import log2

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.points import SPEEDUP
from analysis.figures.style import BLUE, VERMILLION, empty, finish
from analysis.figures.words import PUBLISHED, SOURCE, cut, folded, joined, series_words, threshold_words

NAME = "caching"
CACHE, BATCH = "settings.cache_block_size", "batch_size"
_SCALE = [[0, VERMILLION], [0.5, "#ece7e0"], [1, BLUE]]
_CELL = 40


def caching_points(table: pd.DataFrame) -> pd.DataFrame:
    """The cells of `caching`, one a row."""
    found = table[(table["decoder"] == "block_cached") & table[SPEEDUP].notna() & table[CACHE].notna()]
    titles = [_title(row) for row in found.to_dict("records")]
    found = found.assign(panel=titles).sort_values(["source", "rank", "panel", CACHE, BATCH, "n", "id"])
    return found.drop_duplicates(["panel", CACHE, BATCH], keep="last").reset_index(drop=True)


def caching(table: pd.DataFrame) -> go.Figure:
    """Speed-up over the autoregressive run of the same batch size; blue is faster than it, vermillion slower.

    The colour scale is the same for every store: from 0.5 × to 2 ×.
    """
    points = caching_points(table)
    if points.empty:
        return empty("Nothing to draw: this figure needs timed runs of block_cached.", NAME)
    parts = [(str(title), part) for title, part in points.groupby("panel", sort=False)]
    heights = [part[CACHE].nunique() for _, part in parts]
    figure = make_subplots(
        rows=len(parts),
        cols=1,
        subplot_titles=[folded(title) for title, _ in parts],
        row_heights=heights,
        vertical_spacing=min(0.2, 90 / (_CELL * sum(heights) + 90 * len(parts))),
    )
    for index, (_, part) in enumerate(parts, start=1):
        figure.add_trace(_map(part), row=index, col=1)
    figure.update_annotations(font_size=13)
    figure.update_layout(coloraxis={"colorscale": _SCALE, "cmin": -1, "cmax": 1, "showscale": False})
    figure.update_xaxes(type="category", title_text="batch size (rows)", showgrid=False)
    figure.update_yaxes(type="category", title_text="cache block (tokens)", showgrid=False)
    return finish(figure, NAME, plot_height=_CELL * sum(heights) + 90 * (len(parts) - 1))


def _title(row: dict[str, object]) -> str:
    if row["source"] == PUBLISHED:
        return f"published ({SOURCE}), another model"
    setting = series_words({**row, CACHE: None})
    return joined(cut(setting), threshold_words(row), str(row["group"]))


def _map(part: pd.DataFrame) -> go.Heatmap:
    part = part.assign(
        z=part[SPEEDUP].map(log2),
        words=[_cell(row) for row in part.to_dict("records")],
        **{CACHE: part[CACHE].astype(int)},
    )
    grids = {name: part.pivot(index=CACHE, columns=BATCH, values=name) for name in ("z", "words", "id", "hover")}
    return go.Heatmap(
        x=[f"{int(size)}" for size in grids["z"].columns],
        y=[f"{int(size)}" for size in grids["z"].index],
        z=grids["z"].to_numpy(),
        text=grids["words"].fillna("").to_numpy(),
        customdata=grids["id"].fillna("").to_numpy(),
        hovertext=grids["hover"].fillna("").to_numpy(),
        texttemplate="%{text}",
        hoverinfo="text",
        hoverongaps=False,
        coloraxis="coloraxis",
        xgap=2,
        ygap=2,
    )


def _cell(row: dict[str, float]) -> str:
    low, high = row[f"{SPEEDUP}_low"], row[f"{SPEEDUP}_high"]
    return f"{row[SPEEDUP]:.2f}×" + ("" if low != low else f"<br>{low:.2f}–{high:.2f}")
