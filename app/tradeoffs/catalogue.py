"""The figures of Trade-offs: the runs each needs, its first selection, and what it draws.

A figure called NAME is drawn by `NAME` of `analysis.figures`, from the numbers of `NAME_points`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis import figures
from analysis.figures.catalogue import DESCRIPTIONS
from analysis.figures.words import PUBLISHED
from analysis.runs import RunStore
from app.tradeoffs.together import PER_FORWARD
from app.tradeoffs.view import Chosen

PER_SECOND, SPEEDUP = "tokens_per_second", "speedup"
AXES = {PER_SECOND: "throughput (tok/s)", PER_FORWARD: "tokens per forward"}
MOST_BARS = 8
TIMED_PLAN = "block-cache"
"""The one that makes timed runs for figures which draw any of them."""
_USUAL_THRESHOLD = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The input of a figure: `table` is the selection, with the published layer below it if it is on."""

    runs: RunStore
    table: pd.DataFrame
    against: str
    points: float


def everything(_: pd.DataFrame) -> Chosen:
    """No filter."""
    return {}


def usual(table: pd.DataFrame) -> Chosen:
    """The filters for the AR baseline and the MARS model with the most runs, scored by probability."""
    ours = table[table["source"] != PUBLISHED]
    mars = ours.loc[ours["model.stage"] == "mars", "model"].mode()
    ar = ours.loc[(ours["rank"] < 0) | (ours["model.stage"] == "sft"), "model"].mode()
    names = [str(found.iloc[0]) for found in (ar, mars) if len(found)]
    return {"checkpoint": names, "score": ["probability", "no threshold"]}


def handful(table: pd.DataFrame) -> pd.DataFrame:
    """At most MOST_BARS measured runs: for each series the run whose threshold is nearest to the usual one."""
    ours = table[table["source"] != PUBLISHED]
    far = (ours["threshold"] - _USUAL_THRESHOLD).abs().fillna(_USUAL_THRESHOLD)
    nearest = ours.assign(far=far).sort_values(["rank", "series", "far", "n", "id"]).drop_duplicates("series")
    return nearest.drop(columns="far").head(MOST_BARS) if len(ours) > MOST_BARS else ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure, which `takes` these parts of a scene; with `few` it draws a handful of the runs.

    `words` name the runs that it is drawn from, None any timed ones. `axes` are the measures that it can be drawn
    against; empty if there is no choice. `x` is the measure along the axis of a figure without that choice, None if it
    is no speed. `rests_on` is the measure that a run must have to be drawn. With `layer` it can show published numbers,
    with `by_family` it has a panel for each family of problems, with `together` it compares the runs of one set only,
    and shows a handful of series. `start` gives the first selection from the table of all rows that could be drawn.
    """

    name: str
    words: str | None = "runs of every decoder"
    takes: tuple[str, ...] = ("table",)
    few: bool = False
    start: Callable[[pd.DataFrame], Chosen] = everything
    axes: tuple[str, ...] = ()
    x: str | None = None
    rests_on: str | None = None
    layer: bool = False
    by_family: bool = False
    together: bool = False
    note: str = ""

    @property
    def label(self) -> str:
        """Its title."""
        return DESCRIPTIONS[self.name].title

    @property
    def caption(self) -> str:
        """The question it answers and how to read it."""
        return DESCRIPTIONS[self.name].caption(self.note)

    def points(self, scene: Scene) -> pd.DataFrame:
        """The numbers that it draws, one row a mark."""
        found: pd.DataFrame = getattr(figures, f"{self.name}_points")(**self._taken(scene))
        return found

    def draw(self, scene: Scene) -> go.Figure:
        """The figure itself."""
        found: go.Figure = getattr(figures, self.name)(**self._taken(scene))
        return found

    def _taken(self, scene: Scene) -> dict[str, Any]:
        taken = {name: getattr(scene, name) for name in self.takes}
        return taken | {"table": handful(scene.table)} if self.few else taken

    def advice(self, against: str) -> str:
        """A sentence with the command that makes the runs that it needs, drawn against this measure."""
        words, plan = self.words, DESCRIPTIONS[self.name].recipes[0]
        if words is None or (self.axes and against != PER_FORWARD):
            words, plan = "timed runs", TIMED_PLAN
        return f"This makes {words}: python -m analysis sweep analysis/plans/{plan}.toml"


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            name="frontier",
            takes=("table", "against"),
            note="Rings mark settings that no other beats; the star is the answer above.",
            axes=tuple(AXES),
            layer=True,
            together=True,
        ),
        Figure(name="families", takes=("table", "against"), axes=tuple(AXES), by_family=True, together=True),
        Figure(name="equal_accuracy", takes=("table", "points", "against"), axes=tuple(AXES), together=True),
        Figure(name="efficiency", words=None, x=PER_FORWARD, rests_on=SPEEDUP, together=True),
        Figure(
            name="acceptance",
            takes=("runs", "table"),
            few=True,
            note=f"At most {MOST_BARS} runs are drawn, those with τ nearest to {_USUAL_THRESHOLD}: filter for others.",
            start=usual,
        ),
        Figure(name="ablation", words="runs of models trained with and without the SFT loss", layer=True),
        Figure(name="scores", words="runs with other scores", x=PER_FORWARD),
        Figure(name="caching", words="timed runs of block_cached", rests_on=SPEEDUP, layer=True),
        Figure(name="reliability", takes=("runs", "table"), words="runs that keep their mask proposals"),
    )
}
