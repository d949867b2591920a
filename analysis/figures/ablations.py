"""The effect of block size and SFT loss: accuracy in one-token mode and at one threshold."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import LEGEND_WIDTH, Axes, add_baseline, errors, panels
from analysis.figures.points import ACCURACY, PER_FORWARD
from analysis.figures.style import Look, drawn, empty, finish
from analysis.figures.words import PUBLISHED, SOURCE, folded, threshold_words
from mars.config import DEFAULT_THRESHOLD

NAME = "ablation"
PANEL, LOSS = "panel", "sft_loss"
_LOSSES = {True: "with SFT loss", False: "without SFT loss"}
_SYMBOLS = ("diamond", "triangle-up", "pentagon")
"""Of the published models; ours are circles and squares."""
_ASIDE = 0.07
"""The distance between marks of one block size, so that their intervals do not overlap."""


def ablation_points(table: pd.DataFrame) -> pd.DataFrame:
    """The points of `ablation`, one a row: MARS models at the block size that they were trained for.

    Of our models only the largest group that saw equally many conversations, so that nothing else differs.
    """
    size, at = table["model.block_size"], table["threshold"]
    found = table[
        (table["decoder"] == "sliding_window")
        & (table["settings.block_size"] == size)
        & table["model.sft_loss"].notna()
        & (at.isna() | (at == DEFAULT_THRESHOLD))
        & ~table["settings.score"].isin(["margin", "entropy"])
        & (table["settings.extra_proposal"].isna() | (table["settings.extra_proposal"] == False))  # noqa: E712 - NaN
    ]
    theirs = found["source"] == PUBLISHED
    of_all = theirs & (found["tasks"].map(len) > 1)
    found = pd.concat([found[of_all], _alike(found[~theirs])])
    found[PANEL] = [threshold_words(row) for row in found.to_dict("records")]
    found[LOSS] = found["model.sft_loss"].astype(bool)
    base = found["model.name"].str.split(", ").str[-1].where(found["source"] == PUBLISHED, "")
    found = found.assign(base=base).sort_values(["base", LOSS, "threshold", "model.block_size", "n", "id"])
    once = ["base", LOSS, PANEL, "model.block_size"]
    return found.drop_duplicates(once, keep="last").reset_index(drop=True)


def ablation(table: pd.DataFrame) -> go.Figure:
    """Accuracy by block size, with and without the SFT loss, in one-token mode and at the usual threshold."""
    points = ablation_points(table)
    if points.empty:
        return empty("Nothing to draw: the selection has no MARS models of known training.", NAME)
    axes = Axes(x=PER_FORWARD)
    titles = sorted(points[PANEL].unique(), key=lambda title: title.startswith("τ"))
    figure = panels(titles, axes)
    sizes = sorted(points["model.block_size"].unique())
    groups = sorted({(str(base), bool(loss)) for base, loss in zip(points["base"], points[LOSS], strict=True)})
    groups.sort(key=lambda group: (group[0], not group[1]))
    for index, title in enumerate(titles):
        where, part = axes.place(index, len(titles)), points[points[PANEL] == title]
        add_baseline(figure, part, where)
        for number, (base, loss) in enumerate(groups):
            rows = part[(part["base"] == base) & (part[LOSS] == loss)]
            if len(rows):
                aside = _ASIDE * (number - (len(groups) - 1) / 2)
                places = [sizes.index(size) + aside for size in rows["model.block_size"]]
                trace = _trace(base, loss, rows, places, _look(number // 2, base, loss))
                there = {shown.legendgroup for shown in figure.data}
                figure.add_trace(trace.update(showlegend=trace.legendgroup not in there), **where)
    figure.update_xaxes(
        title_text="block size B",
        tickvals=list(range(len(sizes))),
        ticktext=[f"{int(size)}" for size in sizes],
    )
    return finish(figure, NAME)


def _alike(rows: pd.DataFrame) -> pd.DataFrame:
    """Of our runs those of the largest group of models with equally many conversations, on the same tasks."""
    models = rows.drop_duplicates(["model.examples", "tasks", "model.block_size", "model.sft_loss"])
    counts = models.groupby(["model.examples", "tasks"], dropna=False).size()
    if counts.empty:
        return rows
    examples, tasks = counts.idxmax()
    return rows[(rows["model.examples"] == examples) & rows["tasks"].map(lambda each: each == tasks)]


def _look(number: int, base: str, loss: bool) -> Look:
    """Colour and dash show whether there was an SFT loss, the symbol shows whose model it is."""
    own = Look.number(0 if loss else 1)
    return Look(own.colour, f"{_SYMBOLS[number % len(_SYMBOLS)]}-open", "dot") if base else own


def _trace(base: str, loss: bool, rows: pd.DataFrame, places: list[float], look: Look) -> go.Scatter:
    return go.Scatter(
        name=folded(f"published ({SOURCE}) · {base} · {_LOSSES[loss]}", LEGEND_WIDTH) if base else _LOSSES[loss],
        legendgroup=f"{base} {loss}",
        x=places,
        y=rows[ACCURACY].tolist(),
        error_y=errors(rows, ACCURACY, look.colour),
        **drawn(look, rows["hover"].tolist(), rows["id"].tolist(), size=9, width=1.2 if base else 2),
    )
