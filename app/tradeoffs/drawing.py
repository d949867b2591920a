"""A view of Trade-offs as the page asks for it, and as it gets it: figure, caption, choices, the answer, the table."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import pandas as pd
import plotly.graph_objects as go
from pydantic import Field

from analysis.figures import FIGURES, POOLED, words
from analysis.figures.operating_points import judged
from analysis.figures.points import PER_FORWARD, PER_SECOND
from analysis.measured import families
from analysis.studies import behind_figure
from app.tradeoffs import together
from app.tradeoffs.operating import finding
from app.tradeoffs.run_cache import RunCache
from mars.schema import Strict, bounds, checked, one_of

FRONTIER = "frontier"
AXES = {PER_SECOND: "throughput (tok/s)", PER_FORWARD: "tokens per forward"}
_FORMER_FIGURES = ("efficiency", "acceptance", "ablation", "scores", "caching", "reliability", "load", "families")
_PICKED = "the answer: within {points:g} points of AR"
Text = Annotated[str, Field(max_length=200)]
FEWEST_POINTS, MOST_POINTS = 0.1, 50.0
POINTS = 2.0
"""Percentage points that a setting may lose unless the person says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Strict):
    """A view. `runs` names a set of runs that compare, empty for the first; `batch` is for throughput."""

    figure: str = FRONTIER
    against: str = PER_SECOND
    task: Text = POOLED
    points: Annotated[float, bounds(FEWEST_POINTS, MOST_POINTS)] = POINTS
    runs: Text = ""
    batch: Annotated[int, bounds(1, 9_999)] = 1

    @classmethod
    def of(cls, question: object) -> "View":
        """A view from what the page sent; ValueError with one sentence that names the value and what is allowed."""
        view: View = checked(cls, question, "the view")
        if view.figure in _FORMER_FIGURES:  # of a link from before
            view = replace(view, figure=FRONTIER)
        checked(one_of(FIGURES), view.figure, "figure")
        checked(one_of(AXES), view.against, "against")
        return view


def draw(run_cache: RunCache, view: View) -> dict[str, Any]:
    """Everything that the page shows of this view; all but the figure is plain JSON.

    A choice in it that no longer exists is ignored. The table has the runs that the view compares, the figure a handful
    of series.
    """
    pooled, tasks, sets = run_cache.table(), families(run_cache.runs), _sets(run_cache, view.against)
    task = view.task if view.task in tasks else POOLED
    sets = [each for each in sets if task == POOLED or task in each.tasks] or sets
    chosen = _chosen(run_cache, view, sets)
    offered = [each for place, each in enumerate(sets) if place < together.MOST_SETS or each is chosen]
    of_set = pooled[pooled["id"].isin(chosen.ids if chosen else ())]
    batches = sorted({int(size) for size in of_set["batch_size"].dropna()}) if view.against != PER_FORWARD else []
    batch = view.batch if view.batch in batches else next(iter(batches), 0)
    if batch:
        of_set = of_set[of_set["batch_size"] == batch]
    listed = run_cache.table(task)
    listed = listed[listed["id"].isin(of_set["id"])].reset_index(drop=True)
    answer = finding(listed, points=view.points, against=view.against)
    few = together.handful(listed, view.against, answer.chosen)[["id", "series", "rank"]]
    kind = FIGURES[view.figure]
    options: dict[str, Any] = {"against": view.against} | ({"points": view.points} if kind.budget else {})
    tried = judged(listed, **options) if kind.budget else listed  # with those that are not shown
    shown = tried.drop(columns=["series", "rank"]).merge(few, on="id")
    points, figure = kind.points(shown, **options), kind.draw(shown, **options)
    if view.figure == FRONTIER:
        _name_thresholds(figure, points)
    if answer.chosen:
        _mark(figure, answer.chosen, view.points)
    drawn = figure.to_plotly_json()
    layout = {name: value for name, value in drawn["layout"].items() if name != "template"}  # which the page sets
    absent = "These runs are not for this figure" if sets else "There are no runs for this figure"
    empty = f"{absent}. This makes some: python -m analysis reproduce {behind_figure(view.figure)[0]}"
    names = {name: words.task_words(name) for name in (POOLED, *tasks)}
    return {
        "figure": {**drawn, "layout": layout},
        "caption": kind.reading,
        "empty": "" if len(points) else empty,
        "axes": [{"value": name, "label": label} for name, label in AXES.items()],
        "against": view.against,
        "runs": {
            "value": chosen.name if chosen else "",
            "options": [{"value": each.name, "label": each.label} for each in offered],
        },
        "batch": {"value": batch, "options": batches},
        "tasks": [{"value": name, "label": title[:1].upper() + title[1:]} for name, title in names.items()],
        "task": task,
        "answer": {"sentence": answer.sentence, "how": answer.how, "run": answer.chosen},
        "table": _table(listed if view.figure == FRONTIER else points),
        "problems": list(run_cache.problems),
    }


def _chosen(run_cache: RunCache, view: View, sets: list[together.Together]) -> together.Together | None:
    """The set that the view names; else, as when the axis changes, the one with most of the runs that were shown."""
    before = next((each.ids for axis in AXES for each in _sets(run_cache, axis) if each.name == view.runs), frozenset())
    return max(sets, key=lambda each: (each.name == view.runs, len(each.ids & before)), default=None)


def _sets(run_cache: RunCache, against: str) -> list[together.Together]:
    return run_cache.once(("sets", against), partial(together.sets, run_cache.table(), against))


def _name_thresholds(figure: go.Figure, points: pd.DataFrame) -> None:
    """Write its threshold beside the first and the last mark of each of our lines: more names would overlap."""
    names = {row["id"]: words.threshold_words(row).removesuffix(" mode") for row in points.to_dict("records")}
    for trace in figure.data:
        ids = _runs(trace)
        ends = {0, len(ids) - 1}
        text = [names.get(each, "") if place in ends else "" for place, each in enumerate(ids)]
        if any(text):
            first = "bottom right" if text[0] == "one-token" else "bottom left"  # two lines may begin near each other
            sides = ["top right" if place else first for place in range(len(ids))]
            trace.update(mode=f"{trace.mode}+text", text=text, textposition=sides)


def _runs(trace: Any) -> list[str]:
    """The runs of the marks of a trace."""
    return list(trace.customdata) if isinstance(trace, go.Scatter) and trace.customdata is not None else []


def _mark(figure: go.Figure, chosen: str, points: float) -> None:
    """Add a star at the chosen run, if the figure has a mark of it."""
    for trace in list(figure.data):
        ids = _runs(trace)
        if chosen in ids:
            place = ids.index(chosen)
            figure.add_scatter(
                name=_PICKED.format(points=points),
                legendgroup="operating point",
                showlegend=True,
                x=[trace.x[place]],
                y=[trace.y[place]],
                mode="markers",
                marker={"symbol": "star", "size": 20, "color": "#E69F00", "line": {"width": 1.5, "color": "#1d1a17"}},
                hoverinfo="skip",
            )
            return


Column = tuple[str, Callable[[words.Row], str], Callable[[words.Row], list[float]] | None]
"""Its heading, what a cell says of a row, and the numbers behind that; None for a column of words."""


def _measure(label: str, name: str, form: str = ".2f", factor: float = 1.0) -> Column:
    """A measure with its interval, if it has one."""
    values = partial(words.measure_values, name=name, factor=factor)
    return label, lambda row: words.measure_words(row, name, form, factor), values


def _plain(label: str, name: str, form: str = "", *, number: bool = True) -> Column:
    values = partial(words.measure_values, name=name) if number else None
    return label, lambda row: "" if words.missing(row.get(name)) else f"{row[name]:{form}}", values


_COLUMNS: tuple[Column, ...] = (
    ("Model", words.model_words, None),
    ("Decoder", lambda row: words.joined(words.title_words(row), words.decoder_words(row)), None),
    ("Threshold", words.threshold_words, lambda row: []),
    ("Qualifies", lambda row: "" if "qualifies" not in row else "yes" if row["qualifies"] else "no", None),
    _plain("p of the loss", "p_value", ".2g"),
    _plain("Settings tried", "tried", ".0f"),
    _measure("Accuracy (%)", "accuracy", ".1f", 100.0),
    _measure("Tokens of its own one-token mode (%)", "agreement", ".1f", 100.0),
    _measure("Tokens per forward", "tokens_per_forward"),
    _measure("Tokens a second", "tokens_per_second", ".0f"),
    _measure("Speed-up over AR (×)", "speedup"),
    _measure("Accuracy against AR (points)", "loss", "+.1f", -1.0),
    _plain("Batch size", "batch_size", ".0f"),
    _plain("n of answers", "n", ",.0f"),
    _plain("n of tokens and speed", "own_n", ",.0f"),
    _plain("Hardware", "hardware", number=False),
    _plain("Date", "date", ".10", number=False),
)


def _table(points: pd.DataFrame) -> dict[str, Any]:
    """The table of a figure, without empty columns; each row has the `id` of its run, and `numbers` with all digits."""
    rows = points.to_dict("records")
    columns = [column for column in _COLUMNS if any(map(column[1], rows))]
    numbers = [[values(row) if values else [] for _, _, values in columns] for row in rows]
    cells = [[said(row) for _, said, _ in columns] for row in rows]
    return {
        "columns": [{"label": label, "number": values is not None} for label, _, values in columns],
        "rows": [{"id": row["id"], "cells": cells[at], "numbers": numbers[at]} for at, row in enumerate(rows)],
    }
