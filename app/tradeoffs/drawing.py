"""A view as the page gets it: the figure, how to read it, the choices there are, the operating point, the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures import POOLED
from analysis.figures.words import PUBLISHED, SOURCE
from app.tradeoffs import filters, operating, sweeps, tables
from app.tradeoffs.catalogue import AXES, FIGURES, PER_FORWARD, Figure, Scene
from app.tradeoffs.filters import Chosen
from app.tradeoffs.layer import layers
from app.tradeoffs.library import Library
from app.tradeoffs.view import View

NO_RUNS = "There are no runs yet."
_THEIRS = f"published ({SOURCE})<br>"
_PICKED = "fastest that loses surely less than {points:g} points"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a view selects. `scene` has the published layer, `rows` are the measured runs alone.

    `found` are the facets of all runs and `chosen` what was chosen of them; `layer` names the published one shown.
    """

    figure: Figure
    against: str
    task: str
    table: pd.DataFrame
    found: pd.DataFrame
    chosen: Chosen
    rows: pd.DataFrame
    layers: tuple[str, ...]
    layer: str
    scene: Scene


def families(library: Library) -> list[str]:
    """The families that runs were measured on, in the order of the runs, if there is more than one."""
    entries = library.store().runs.entries
    names = list(dict.fromkeys(task for entry in entries for task in entry["tasks"]))
    return names if len(names) > 1 else []


def tasks_of(library: Library, view: View) -> list[str]:
    """The families whose tables this view needs."""
    known, figure = families(library), FIGURES[view.figure]
    if figure.by_family:
        return [POOLED, *([view.task] if view.task in known else known)]
    return [POOLED, view.task] if view.task in known else [POOLED]


def select(library: Library, view: View) -> Selection:
    """The runs of this view; what it asks for that there is not any more is left out."""
    store, figure = library.store(), FIGURES[view.figure]
    against = view.against if figure.axes else figure.x or PER_FORWARD
    tasks = tasks_of(library, view)
    task = view.task if view.task in tasks else POOLED
    pooled = library.table()
    found = filters.facets(pooled)
    drawable = pooled.loc[found.index]
    measured = drawable[drawable[figure.rests_on or against].notna()]
    start = figure.start(drawable if measured.empty else measured)
    chosen = filters.known(found, start if view.chosen is None else view.chosen)
    ids = set(pooled.loc[found.index[filters.through(found, chosen)], "id"])
    shown = pd.concat([library.table(name) for name in tasks[1:]]) if len(tasks) > 1 else drawable
    rows = shown[shown["id"].isin(ids)].reset_index(drop=True)
    offered = layers(figure, pooled, against)
    layer = view.published if view.published in offered else next(iter(offered), "") if view.published else ""
    table = pd.concat([rows, offered[layer]], ignore_index=True) if layer else rows
    return Selection(
        figure=figure,
        against=against,
        task=task,
        table=pooled,
        found=found,
        chosen=chosen,
        rows=rows,
        layers=tuple(offered),
        layer=layer,
        scene=Scene(runs=store.runs, table=table, against=against, points=view.points),
    )


def draw(library: Library, view: View) -> dict[str, Any]:
    """Everything that the page shows of this view, as JSON can hold it but for the figure."""
    picked = select(library, view)
    points = picked.figure.points(picked.scene)
    figure = picked.figure.draw(picked.scene)
    findings = operating.findings(
        library.store(), picked.table, _compared(picked), points=view.points, against=picked.against, task=picked.task
    )
    _shorten(figure, picked.layer)
    if not picked.figure.by_family or picked.task != POOLED:
        _mark(figure, [found.chosen for found in findings if found.chosen], view.points)
    drawn = figure.to_plotly_json()
    drawn["layout"].pop("template", None)
    return {
        "figure": drawn,
        "caption": picked.figure.caption,
        "empty": "" if len(points) else _why_empty(picked),
        "axes": [{"value": name, "label": AXES[name]} for name in picked.figure.axes],
        "against": picked.against,
        "filters": filters.options(picked.found, picked.chosen),
        "words": filters.words(picked.chosen),
        "usual": view.chosen is None,
        "tasks": [{"value": name, "label": _task(name)} for name in (POOLED, *families(library))],
        "task": picked.task,
        "layers": list(picked.layers),
        "layer": picked.layer,
        "summary": _summary(picked),
        "findings": [found.sentence for found in findings],
        "live": _live(picked, points),
        "table": tables.table(points, picked.figure.name),
        "stale": library.stale(),
    }


def _compared(picked: Selection) -> pd.DataFrame:
    """The rows that the operating point is chosen among: one a run, on all families or on the one chosen."""
    if not picked.figure.by_family or picked.task != POOLED:
        return picked.rows
    return picked.table[picked.table["id"].isin(picked.rows["id"])]


def _mark(figure: go.Figure, chosen: list[str], points: float) -> None:
    """A star at each operating point that the figure has as a mark, in the first panel that has it."""
    for run in dict.fromkeys(chosen):
        for trace in list(figure.data):
            ids = list(trace.customdata) if isinstance(trace, go.Scatter) and trace.customdata is not None else []
            if run in ids:
                place = ids.index(run)
                figure.add_trace(_star(trace, place, points, legend=run == chosen[0]))
                break


def _shorten(figure: go.Figure, layer: str) -> None:
    """Say "published" once in a word: what the layer is stands beside its switch."""
    for trace in figure.data:
        name = trace.name or ""
        if name.startswith(_THEIRS):
            trace.name = (
                name.replace(_THEIRS, "published: ").removesuffix(layer).removesuffix("<br>").removesuffix(" · ")
            )


def _star(trace: go.Scatter, place: int, points: float, *, legend: bool) -> go.Scatter:
    return go.Scatter(
        name=_PICKED.format(points=points),
        legendgroup="operating point",
        showlegend=legend,
        x=[trace.x[place]],
        y=[trace.y[place]],
        xaxis=trace.xaxis,
        yaxis=trace.yaxis,
        mode="markers",
        marker={"symbol": "star", "size": 20, "color": "#E69F00", "line": {"width": 1.5, "color": "#1d1a17"}},
        hoverinfo="skip",
    )


def _live(picked: Selection, points: pd.DataFrame) -> dict[str, Any] | None:
    """Where a lane that is running now belongs: the measure along x, and the axes; alone it is batch size 1."""
    figure = picked.figure
    if points.empty or not (figure.axes or figure.x) or figure.name == "equal_accuracy":
        return None
    if figure.name == "scores":
        panels = list(range(points["setting"].nunique()))
    elif figure.by_family:
        panels = list(range(points["task"].nunique()))
    elif figure.name == "frontier" and picked.against == PER_FORWARD:
        panels = [0]
    else:
        panels = [place for place, size in enumerate(sorted(points["batch_size"].dropna().unique())) if size == 1]
    return {"measure": picked.against, "axes": [f"{place + 1}" if place else "" for place in panels]}


def _why_empty(picked: Selection) -> str:
    """Whether a filter hides what there is, or which sweep would make it."""
    ours = picked.table[picked.table["source"] != PUBLISHED]
    everything = Scene(runs=picked.scene.runs, table=ours, against=picked.against, points=picked.scene.points)
    need = picked.figure.needs(picked.against)
    if ours.empty:
        return f"{NO_RUNS} {sweeps.advice(need)}"
    if not picked.figure.by_family and len(picked.figure.points(everything)):
        return "The selection has no run that this figure can show; others have. Widen the filters."
    return f"No run here can be shown so. {sweeps.advice(need)}"


def _summary(picked: Selection) -> str:
    shown, whole = picked.rows["id"].nunique(), len(picked.found)
    return f"{shown} of {whole} runs selected" if shown < whole else f"All {whole} runs selected"


def _task(name: str) -> str:
    return name.replace("_", " ").capitalize()
