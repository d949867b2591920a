"""The figures of Trade-offs: the runs each needs, its first selection, and the functions that draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from analysis import figures
from analysis.figures.catalogue import DESCRIPTIONS
from analysis.figures.words import PUBLISHED
from analysis.runs import RunStore
from app.tradeoffs import sweeps
from app.tradeoffs.filters import Chosen
from app.tradeoffs.sweeps import Need
from app.tradeoffs.together import PER_FORWARD

PER_SECOND, SPEEDUP = "tokens_per_second", "speedup"
AXES = {PER_SECOND: "throughput (tok/s)", PER_FORWARD: "tokens per forward"}
MOST_BARS = 8
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure. `axes` are the measures that it can be drawn against; empty if there is no choice.

    `x` is the measure along the axis of a figure without that choice, None if it is no speed. `rests_on` is the measure
    that a run must have to be drawn. With `layer` it can show published numbers, with `by_family` it has a panel for
    each family of problems, with `together` it compares the runs of one set only, and shows a handful of series.
    `start` gives the first selection from the table of all rows that could be drawn.
    """

    name: str
    need: Need
    points: Callable[[Scene], pd.DataFrame]
    draw: Callable[[Scene], go.Figure]
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

    def needs(self, against: str) -> Need:
        """The runs that it needs, drawn against this measure."""
        return TIMED if self.axes and against != PER_FORWARD else self.need


RUNS = Need(words="runs of every decoder", made_by=sweeps.has("decoders"))
TIMED = Need(words="timed runs", made_by=sweeps.has("timed", True))
_ABLATION = Need(
    words="runs of models trained with and without the SFT loss",
    made_by=sweeps.both(sweeps.has("decoders", "sliding_window"), sweeps.at_least("checkpoints", 4)),
)
_SCORES = Need(words="runs with other scores", made_by=sweeps.has("scores", "margin", "entropy"))
_CACHING = Need(
    words="timed runs of block_cached",
    made_by=sweeps.both(sweeps.has("timed", True), sweeps.has("decoders", "block_cached")),
)
_PROPOSALS = Need(words="runs that keep their mask proposals", made_by=sweeps.has("proposals", True))


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


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            name="frontier",
            note="Rings mark settings that no other beats; the star is the answer above.",
            need=RUNS,
            axes=tuple(AXES),
            layer=True,
            together=True,
            points=lambda scene: figures.frontier_points(scene.table, against=scene.against),
            draw=lambda scene: figures.frontier(scene.table, against=scene.against),
        ),
        Figure(
            name="families",
            need=RUNS,
            axes=tuple(AXES),
            by_family=True,
            together=True,
            points=lambda scene: figures.families_points(scene.table, against=scene.against),
            draw=lambda scene: figures.families(scene.table, against=scene.against),
        ),
        Figure(
            name="equal_accuracy",
            need=RUNS,
            axes=tuple(AXES),
            together=True,
            points=lambda scene: figures.equal_accuracy_points(scene.table, points=scene.points, against=scene.against),
            draw=lambda scene: figures.equal_accuracy(scene.table, points=scene.points, against=scene.against),
        ),
        Figure(
            name="efficiency",
            need=TIMED,
            x=PER_FORWARD,
            rests_on=SPEEDUP,
            together=True,
            points=lambda scene: figures.efficiency_points(scene.table),
            draw=lambda scene: figures.efficiency(scene.table),
        ),
        Figure(
            name="acceptance",
            note=f"At most {MOST_BARS} runs are drawn, those with τ nearest to {_USUAL_THRESHOLD}: filter for others.",
            need=RUNS,
            start=usual,
            points=lambda scene: figures.acceptance_points(scene.runs, handful(scene.table)),
            draw=lambda scene: figures.acceptance(scene.runs, handful(scene.table)),
        ),
        Figure(
            name="ablation",
            need=_ABLATION,
            layer=True,
            points=lambda scene: figures.ablation_points(scene.table),
            draw=lambda scene: figures.ablation(scene.table),
        ),
        Figure(
            name="scores",
            need=_SCORES,
            x=PER_FORWARD,
            points=lambda scene: figures.scores_points(scene.table),
            draw=lambda scene: figures.scores(scene.table),
        ),
        Figure(
            name="caching",
            need=_CACHING,
            rests_on=SPEEDUP,
            layer=True,
            points=lambda scene: figures.caching_points(scene.table),
            draw=lambda scene: figures.caching(scene.table),
        ),
        Figure(
            name="reliability",
            need=_PROPOSALS,
            points=lambda scene: figures.reliability_points(scene.runs, scene.table),
            draw=lambda scene: figures.reliability(scene.runs, scene.table),
        ),
    )
}
