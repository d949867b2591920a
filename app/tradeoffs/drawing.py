"""A view as the page gets it: the figure, its caption, the choices, the answer to the budget, the table."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures import FIGURES, POOLED
from analysis.figures.words import task_words, threshold_words
from analysis.studies import behind_figure
from app.tradeoffs import tables, together
from app.tradeoffs.operating import Finding, finding
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.together import Together
from app.tradeoffs.view import AXES, PER_FORWARD, View

FRONTIER = "frontier"
CHAT = "chat"
"""Of ordinary questions, which nobody judges: a way to look at the pair beside its families."""
_PICKED = "the answer: within {points:g} points of AR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The runs that a view compares (`listed`), a handful of series (`shown`), the choices; batch 0 is none."""

    view: View
    sets: tuple[Together, ...]
    runs: str
    batches: tuple[int, ...]
    batch: int
    task: str
    shown: pd.DataFrame
    listed: pd.DataFrame
    answer: Finding

    @property
    def points(self) -> pd.DataFrame:
        """The numbers that are drawn, one row a mark."""
        return FIGURES[self.view.figure].points(self.shown, **self._options)

    @property
    def figure(self) -> go.Figure:
        """The figure itself."""
        return FIGURES[self.view.figure].draw(self.shown, **self._options)

    @property
    def _options(self) -> dict[str, Any]:
        budget = {"points": self.view.points} if FIGURES[self.view.figure].budget else {}
        return {"against": self.view.against, **budget}


def families(run_cache: RunCache) -> list[str]:
    """The families that runs were measured on together, and chat; empty if there is only one."""
    entries = run_cache.store().runs.entries
    several = [entry["tasks"] for entry in entries if len(entry["tasks"]) > 1 or entry["tasks"] == [CHAT]]
    names = sorted({task for tasks in several for task in tasks}, key=lambda task: (task == CHAT, task))
    return names if len(names) > 1 else []


def select(run_cache: RunCache, view: View) -> Selection:
    """The runs of this view; a choice in it that no longer exists is ignored."""
    pooled, task = run_cache.table(), view.task if view.task in families(run_cache) else POOLED
    sets = run_cache.store().remembered(("sets", view.against), partial(together.sets, pooled, view.against))
    asked = next((each for each in sets if each.name == view.runs), sets[0] if sets else None)
    of_task = [each for each in sets if task == POOLED or task in each.tasks]
    chosen = asked if asked in of_task or not of_task else of_task[0]
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
    return Selection(
        view=view,
        sets=tuple(offered),
        runs=chosen.name if chosen else "",
        batches=tuple(batches),
        batch=batch,
        task=task,
        shown=listed.drop(columns=["series", "rank"]).merge(few, on="id"),
        listed=listed,
        answer=answer,
    )


def draw(run_cache: RunCache, view: View) -> dict[str, Any]:
    """Everything that the page shows of this view; all but the figure is plain JSON."""
    picked = select(run_cache, view)
    points, figure, answer = picked.points, picked.figure, picked.answer
    if view.figure == FRONTIER:
        _name_thresholds(figure, points)
    if answer.chosen:
        _mark(figure, answer.chosen, view.points)
    drawn = figure.to_plotly_json()
    layout = {name: value for name, value in drawn["layout"].items() if name != "template"}  # which the page sets
    study = behind_figure(view.figure)[0]
    empty = f"There are no runs for this figure. This makes some: python -m analysis reproduce {study}"
    names = {name: task_words(name) for name in (POOLED, *families(run_cache))}
    return {
        "figure": {**drawn, "layout": layout},
        "caption": FIGURES[view.figure].reading,
        "empty": "" if len(points) else empty,
        "axes": [{"value": name, "label": label} for name, label in AXES.items()],
        "against": view.against,
        "runs": {"value": picked.runs, "options": [{"value": each.name, "label": each.label} for each in picked.sets]},
        "batch": {"value": picked.batch, "options": list(picked.batches)},
        "tasks": [{"value": name, "label": title[:1].upper() + title[1:]} for name, title in names.items()],
        "task": picked.task,
        "answer": {"sentence": answer.sentence, "how": answer.how, "run": answer.chosen},
        "table": tables.table(listed(picked, points)),
    }


def listed(picked: Selection, points: pd.DataFrame) -> pd.DataFrame:
    """The rows of the table: the marks; for the frontier every run that is compared, drawn or not."""
    return picked.listed if picked.view.figure == FRONTIER else points


def _name_thresholds(figure: go.Figure, points: pd.DataFrame) -> None:
    """Write its threshold beside the first and the last mark of each of our lines: more names would overlap."""
    names = {row["id"]: threshold_words(row).removesuffix(" mode") for row in points.to_dict("records")}
    for trace in figure.data:
        ids = list(trace.customdata) if isinstance(trace, go.Scatter) and trace.customdata is not None else []
        ends = {0, len(ids) - 1}
        text = [names.get(each, "") if place in ends else "" for place, each in enumerate(ids)]
        if any(text):
            sides = ["top right" if place else "bottom right" for place in range(len(ids))]
            trace.update(mode=f"{trace.mode}+text", text=text, textposition=sides)


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
                mode="markers",
                marker={"symbol": "star", "size": 20, "color": "#E69F00", "line": {"width": 1.5, "color": "#1d1a17"}},
                hoverinfo="skip",
            )
            return
