"""A view as the page gets it: the figure, its caption, the choices, the operating point, the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures import POOLED
from analysis.figures.words import PUBLISHED, SOURCE, task_words, threshold_words
from analysis.runs import RunStore
from app.tradeoffs import tables, together
from app.tradeoffs.catalogue import AXES, FIGURES, PER_SECOND, SPEEDUP, Figure, Scene
from app.tradeoffs.operating import Finding, finding
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.together import PER_FORWARD, Together
from app.tradeoffs.view import Chosen, View, facets, known, options, through, words

MEAN = "mean of six benchmarks"
ALL = "all that is published"
NO_RUNS = "There are no runs yet."
_THEIRS = f"published ({SOURCE})<br>"
_MOST_NAMED = 16
"""Marks; with more of them, names would overlap."""
_PICKED = "the answer: within {points:g} points of AR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The runs that a view selects. `scene` includes the published layer, `rows` are the measured runs only.

    `found` are the facets of all runs, `chosen` the selected values; `layer` names the published layer shown. A figure
    that compares runs has further fields: `sets` are the sets to choose from and `runs` the one shown, `batches` its
    batch sizes and `batch` the one shown, 0 without such a choice. `answer` is the answer to the accuracy budget,
    None if the figure compares nothing. The scene has a handful of the series, or all if asked; `listed` has all runs.
    """

    figure: Figure
    task: str
    table: pd.DataFrame
    found: pd.DataFrame
    chosen: Chosen
    rows: pd.DataFrame
    layers: tuple[str, ...]
    layer: str
    scene: Scene
    sets: tuple[Together, ...] = ()
    runs: str = ""
    batches: tuple[int, ...] = ()
    batch: int = 0
    answer: Finding | None = None
    listed: pd.DataFrame | None = None


def families(run_cache: RunCache) -> list[str]:
    """The families that the runs were measured on, in the order of the runs; empty if there is only one."""
    entries = run_cache.store().runs.entries
    names = list(dict.fromkeys(task for entry in entries for task in entry["tasks"]))
    return names if len(names) > 1 else []


def tasks_of(run_cache: RunCache, view: View) -> list[str]:
    """The families whose tables this view needs."""
    if view.task in (every := families(run_cache)):
        return [POOLED, view.task]
    return [POOLED, *every] if FIGURES[view.figure].by_family else [POOLED]


def select(run_cache: RunCache, view: View) -> Selection:
    """The runs of this view; a choice in it that no longer exists is ignored."""
    store, figure = run_cache.store(), FIGURES[view.figure]
    against = view.against if figure.axes else figure.x or PER_FORWARD
    tasks = tasks_of(run_cache, view)
    pooled = run_cache.table()
    sets = together.sets(pooled, figure.rests_on or against) if figure.together else []
    shown_set = next((each for each in sets if each.name == view.runs), sets[0] if sets else None)
    of_set = pooled[pooled["id"].isin(shown_set.ids)] if shown_set else pooled
    clocked = bool(shown_set and figure.axes and against != PER_FORWARD)
    batches = together.batch_sizes(of_set) if clocked else []
    batch = view.batch if view.batch in batches else next(iter(batches), 0)
    if batch:
        of_set = of_set[of_set["batch_size"] == batch]
    found = facets(of_set)
    drawable = pooled.loc[found.index]
    measured = drawable[drawable[figure.rests_on or against].notna()]
    start = figure.start(drawable if measured.empty else measured)
    chosen = known(found, start if view.chosen is None else view.chosen)
    ids = set(pooled.loc[found.index[through(found, chosen)], "id"])
    task = view.task if view.task in tasks else POOLED
    shown = pd.concat([run_cache.table(name) for name in tasks[1:]]) if len(tasks) > 1 else drawable
    rows = shown[shown["id"].isin(ids)].reset_index(drop=True)
    answer, listed = None, None
    if shown_set:
        listed = rows
        compared = rows if not figure.by_family or task != POOLED else pooled[pooled["id"].isin(ids)]
        if figure.axes:
            answer = finding(compared, points=view.points, against=against)
        starred = answer.chosen if answer else None
        few = together.handful(compared, SPEEDUP if figure.rests_on else against, starred)
        if not view.more and view.chosen is None:
            names = few[["id", "series", "rank"]]
            rows = rows.drop(columns=["series", "rank"]).merge(names, on="id")
    offered = layers(figure, pooled, against)
    layer = view.published if view.published in offered else next(iter(offered), "") if view.published else ""
    table = pd.concat([rows, offered[layer]], ignore_index=True) if layer else rows
    return Selection(
        figure=figure,
        task=task,
        table=pooled,
        found=found,
        chosen=chosen,
        rows=rows,
        layers=tuple(offered),
        layer=layer,
        scene=Scene(runs=store.runs, table=table, against=against, points=view.points),
        sets=tuple(sets),
        runs=shown_set.name if shown_set else "",
        batches=tuple(batches),
        batch=batch,
        answer=answer,
        listed=listed,
    )


def layers(figure: Figure, table: pd.DataFrame, against: str) -> dict[str, pd.DataFrame]:
    """The published rows of `table` that this figure can show, by benchmark, the one with most marks first.

    For a figure against speed these are the curves: series with several thresholds.
    """
    theirs = table[table["source"] == PUBLISHED]
    if not figure.layer or theirs.empty:
        return {}
    if not figure.axes:
        drawn = figure.points(Scene(runs=RunStore(), table=theirs, against=against, points=1.0))
        return {ALL: theirs} if len(drawn) else {}
    theirs = theirs[theirs["accuracy"].notna() & theirs[against].notna()]
    lengths = theirs.groupby("series")["threshold"].transform(lambda thresholds: thresholds.nunique(dropna=False))
    theirs = theirs[lengths > 1]
    names = theirs["tasks"].map(lambda tasks: MEAN if len(tasks) > 1 else str(tasks[0]) if tasks else "")
    order = names[names != ""].value_counts().index
    return {str(name): theirs[names == name] for name in order}


def draw(run_cache: RunCache, view: View) -> dict[str, Any]:
    """Everything that the page shows of this view; all but the figure is plain JSON."""
    picked = select(run_cache, view)
    points = picked.figure.points(picked.scene)
    figure = picked.figure.draw(picked.scene)
    _shorten(figure, picked.layer)
    if picked.figure.name == "frontier":
        _name_thresholds(figure, points)
    answer = picked.answer
    chosen = answer.chosen if answer else None
    if chosen and (not picked.figure.by_family or picked.task != POOLED):
        _mark(figure, chosen, view.points)
    drawn = figure.to_plotly_json()
    drawn["layout"].pop("template", None)
    return {
        "figure": drawn,
        "caption": picked.figure.caption,
        "empty": "" if len(points) else _why_empty(picked),
        "axes": [{"value": name, "label": AXES[name]} for name in picked.figure.axes],
        "against": picked.scene.against,
        "runs": {"value": picked.runs, "options": [{"value": each.name, "label": each.label} for each in picked.sets]},
        "batch": {"value": picked.batch, "options": list(picked.batches)},
        "more": _more(picked, view),
        "filters": options(picked.found, picked.chosen),
        "words": words(picked.chosen),
        "usual": view.chosen is None,
        "tasks": [{"value": name, "label": _task(name)} for name in (POOLED, *families(run_cache))],
        "task": picked.task,
        "layers": list(picked.layers),
        "layer": picked.layer,
        "summary": _summary(picked),
        "answer": answer and {"sentence": answer.sentence, "how": answer.how, "run": answer.chosen},
        "live": _live(picked, points),
        "table": tables.table(listed(picked, points), picked.figure.name),
    }


def _more(picked: Selection, view: View) -> dict[str, Any] | None:
    """The number of series that are not shown, and the state of the switch for them; None if there is no switch."""
    if picked.listed is None or view.chosen is not None:
        return None
    count = picked.listed["series"].nunique() - picked.rows["series"].nunique()
    return {"on": view.more, "count": count} if view.more or count > 0 else None


def listed(picked: Selection, points: pd.DataFrame) -> pd.DataFrame:
    """The rows of the table: the marks; for the frontier every selected run, drawn or not, and the published rows."""
    if picked.figure.name != "frontier" or picked.listed is None:
        return points
    return pd.concat([picked.listed, points[points["source"] == PUBLISHED]], ignore_index=True)


def _name_thresholds(figure: go.Figure, points: pd.DataFrame) -> None:
    """Write its threshold beside each mark of our runs, where there are few; above and below the line in turn."""
    ours = points[points["source"] != PUBLISHED].to_dict("records")
    names = {row["id"]: threshold_words(row).removesuffix(" mode") for row in ours} if len(ours) <= _MOST_NAMED else {}
    for trace in figure.data:
        ids = list(trace.customdata) if isinstance(trace, go.Scatter) and trace.customdata is not None else []
        text = [names.get(each, "") if isinstance(each, str) else "" for each in ids]
        if any(text):
            trace.update(
                mode=f"{trace.mode}+text",
                text=text,
                textposition=["top right" if place % 2 else "bottom right" for place in range(len(ids))],
            )


def _mark(figure: go.Figure, chosen: str, points: float) -> None:
    """Add a star at the chosen run, in the first panel that draws it."""
    for trace in list(figure.data):
        ids = list(trace.customdata) if isinstance(trace, go.Scatter) and trace.customdata is not None else []
        if chosen in ids:
            place = ids.index(chosen)
            figure.add_scatter(
                name=_PICKED.format(points=points),
                legendgroup="operating point",
                showlegend=True,
                x=[trace.x[place]],
                y=[trace.y[place]],
                xaxis=trace.xaxis,
                yaxis=trace.yaxis,
                mode="markers+text",
                text=[trace.name],
                textposition="top center",
                marker={"symbol": "star", "size": 20, "color": "#E69F00", "line": {"width": 1.5, "color": "#1d1a17"}},
                hoverinfo="skip",
            )
            return


def _shorten(figure: go.Figure, layer: str) -> None:
    """Shorten the names of published series: the switch beside the figure names the layer."""
    for trace in figure.data:
        name = trace.name or ""
        if name.startswith(_THEIRS):
            short = name.removeprefix(_THEIRS).removesuffix(layer).removesuffix("<br>").removesuffix(" · ")
            trace.name = f"published: {short}"


def _live(picked: Selection, points: pd.DataFrame) -> dict[str, Any] | None:
    """The place of a lane that runs now: the measure along x, and the axes of its panels (batch size 1).

    Tokens per second of different models do not compare: along them only lanes on `models` are drawn (None: all).
    """
    figure = picked.figure
    if points.empty or not (figure.axes or figure.x) or figure.name == "equal_accuracy":
        return None
    if figure.name == "scores":
        panels = list(range(points["setting"].nunique()))
    elif figure.by_family:
        panels = list(range(points["task"].nunique()))
    elif figure.name == "frontier" and picked.scene.against == PER_FORWARD:
        panels = [0]
    else:
        panels = [place for place, size in enumerate(sorted(points["batch_size"].dropna().unique())) if size == 1]
    models = sorted(points["model"].dropna().unique()) if picked.scene.against == PER_SECOND else None
    return {
        "measure": picked.scene.against,
        "axes": [f"{place + 1}" if place else "" for place in panels],
        "models": models,
    }


def _why_empty(picked: Selection) -> str:
    """The reason for an empty figure: a filter hides the runs, or a sweep must make them first."""
    ours = picked.table[picked.table["source"] != PUBLISHED]
    everything = replace(picked.scene, table=ours)
    advice = picked.figure.advice(picked.scene.against)
    if ours.empty:
        return f"{NO_RUNS} {advice}"
    if not picked.figure.by_family and len(picked.figure.points(everything)):
        return "The selection has no run that this figure can show; others have. Widen the filters."
    return f"This figure can show none of the runs. {advice}"


def _summary(picked: Selection) -> str:
    """The number of runs that pass the filters: the table has all of them, the figure perhaps not."""
    selected = picked.rows if picked.listed is None else picked.listed
    shown, whole = selected["id"].nunique(), len(picked.found)
    return f"{shown} of {whole} runs selected" if shown < whole else f"All {whole} runs selected"


def _task(name: str) -> str:
    title = task_words(name)
    return title[:1].upper() + title[1:]
