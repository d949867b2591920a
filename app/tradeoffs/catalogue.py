"""The figures that can be chosen: what each is called, how to read it, what it starts with, and what draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from analysis import figures
from analysis.figures.words import PUBLISHED, SOURCE
from analysis.runs import RunStore
from app.tradeoffs import sweeps
from app.tradeoffs.filters import Chosen
from app.tradeoffs.sweeps import Need

PER_FORWARD, PER_SECOND, SPEEDUP = "tokens_per_forward", "tokens_per_second", "speedup"
AXES = {PER_FORWARD: "tokens per forward", PER_SECOND: "tokens a second", SPEEDUP: "speed-up over AR"}
MOST_BARS = 8
_USUAL_THRESHOLD = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a figure is drawn from: `table` is the selection, with the published layer below it if it is on."""

    runs: RunStore
    table: pd.DataFrame
    against: str
    points: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`axes` are the measures that it can be drawn against, none where it has no choice.

    `x` is what lies along the axis of one without that choice, None where that is no speed. `rests_on` is the measure
    without which a run is no mark. `layer` says that published numbers can lie in it, `by_family` that it has a panel
    for each family of problems. `start` is the selection to begin with, given the table of all that could be drawn.
    """

    name: str
    label: str
    caption: str
    need: Need
    points: Callable[[Scene], pd.DataFrame]
    draw: Callable[[Scene], go.Figure]
    start: Callable[[pd.DataFrame], Chosen]
    axes: tuple[str, ...] = ()
    x: str | None = None
    rests_on: str | None = None
    layer: bool = False
    by_family: bool = False

    def needs(self, against: str) -> Need:
        """What runs it is drawn from, against this measure."""
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
    """The AR baseline and the MARS model of most runs, scored by probability."""
    ours = table[table["source"] != PUBLISHED]
    mars = ours.loc[ours["model.stage"] == "mars", "model"].mode()
    ar = ours.loc[(ours["rank"] < 0) | (ours["model.stage"] == "sft"), "model"].mode()
    names = [str(found.iloc[0]) for found in (ar, mars) if len(found)]
    return {"checkpoint": names, "score": ["probability", "no threshold"]}


def everything(table: pd.DataFrame) -> Chosen:
    """No filter."""
    del table
    return {}


def handful(table: pd.DataFrame) -> pd.DataFrame:
    """At most MOST_BARS measured runs: of each series that whose threshold is nearest to the usual one."""
    ours = table[table["source"] != PUBLISHED]
    far = (ours["threshold"] - _USUAL_THRESHOLD).abs().fillna(_USUAL_THRESHOLD)
    nearest = ours.assign(far=far).sort_values(["rank", "series", "far", "n", "id"]).drop_duplicates("series")
    return nearest.drop(columns="far").head(MOST_BARS) if len(ours) > MOST_BARS else ours


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            name="frontier",
            label="Accuracy against speed",
            caption="Up is better, right is faster. A line runs through the thresholds of one decoder. The dashed line "
            "is AR on the same problems, with its 95 % band; rings are settings that no other beats.",
            need=RUNS,
            axes=tuple(AXES),
            layer=True,
            start=usual,
            points=lambda scene: figures.frontier_points(scene.table, against=scene.against),
            draw=lambda scene: figures.frontier(scene.table, against=scene.against),
        ),
        Figure(
            name="families",
            label="By family of problems",
            caption="The same axes in every panel. The band is that of AR on this family.",
            need=RUNS,
            axes=tuple(AXES),
            by_family=True,
            start=usual,
            points=lambda scene: figures.families_points(scene.table, against=scene.against),
            draw=lambda scene: figures.families(scene.table, against=scene.against),
        ),
        Figure(
            name="equal_accuracy",
            label="Decoders at equal accuracy",
            caption="Of each decoder the fastest setting that surely loses less than the points allowed above: score "
            "test on the same problems, corrected for the settings tried.",
            need=RUNS,
            axes=tuple(AXES),
            start=usual,
            points=lambda scene: figures.equal_accuracy_points(scene.table, points=scene.points, against=scene.against),
            draw=lambda scene: figures.equal_accuracy(scene.table, points=scene.points, against=scene.against),
        ),
        Figure(
            name="efficiency",
            label="Speed-up against tokens per forward",
            caption="What a gain in tokens per forward is worth on the clock. On the dashed line every pass takes as "
            "long as one of AR; under 1 the decoder is slower than AR.",
            need=TIMED,
            x=PER_FORWARD,
            rests_on=SPEEDUP,
            start=usual,
            points=lambda scene: figures.efficiency_points(scene.table),
            draw=lambda scene: figures.efficiency(scene.table),
        ),
        Figure(
            name="acceptance",
            label="Acceptance lengths",
            caption="Share of passes by the number of tokens that they accepted. Of a larger selection "
            f"{MOST_BARS} runs at most are drawn, those with τ nearest to {_USUAL_THRESHOLD}: filter to see others.",
            need=RUNS,
            start=usual,
            points=lambda scene: figures.acceptance_points(scene.runs, handful(scene.table)),
            draw=lambda scene: figures.acceptance(scene.runs, handful(scene.table)),
        ),
        Figure(
            name="ablation",
            label="Block size and SFT loss",
            caption="Models that saw equally many conversations, in one-token mode and at τ = 0.95. Published marks, "
            "if shown, are hollow: means of six benchmarks, of other models.",
            need=_ABLATION,
            layer=True,
            start=everything,
            points=lambda scene: figures.ablation_points(scene.table),
            draw=lambda scene: figures.ablation(scene.table),
        ),
        Figure(
            name="scores",
            label="Probability, margin or entropy",
            caption="The score that is held against the threshold. Where lines lie on each other, it does not matter.",
            need=_SCORES,
            x=PER_FORWARD,
            start=everything,
            points=lambda scene: figures.scores_points(scene.table),
            draw=lambda scene: figures.scores(scene.table),
        ),
        Figure(
            name="caching",
            label="Cache block and batch size",
            caption="Speed-up of block_cached over AR, with its interval. Blue is faster than AR, orange slower. The "
            f"published map ({SOURCE}), if shown, is over a baseline of its own.",
            need=_CACHING,
            rests_on=SPEEDUP,
            layer=True,
            start=everything,
            points=lambda scene: figures.caching_points(scene.table),
            draw=lambda scene: figures.caching(scene.table),
        ),
        Figure(
            name="reliability",
            label="Do the scores mean what they say?",
            caption="How often a mask's proposal is the token that one-token mode writes there, by its score; a panel "
            "for each depth, the number of masks read. On the dotted diagonal it is right as often as it is sure.",
            need=_PROPOSALS,
            start=everything,
            points=lambda scene: figures.reliability_points(scene.runs, scene.table),
            draw=lambda scene: figures.reliability(scene.runs, scene.table),
        ),
    )
}
