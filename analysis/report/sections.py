"""The sections of the report: its figures in order, and the runs that each is drawn from. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis import figures
from analysis.figures.batch_sizes import crossings
from analysis.figures.style import BASELINE_RANK
from analysis.figures.words import PUBLISHED, SOURCE
from analysis.questions import FIGURES
from analysis.runs import RunStore
from analysis.runs.schema import cpu_units
from mars.decoders import BASELINE

POINTS = 2.0
"""Percentage points that a setting may surely lose less than, to be compared at equal accuracy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A figure of the report; `points` are the numbers drawn, one row a mark. The caption says how to read it.

    Figures of one `chapter` follow each other.
    """

    name: str
    title: str
    caption: str
    points: pd.DataFrame
    figure: go.Figure
    chapter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The store, and its measured table with what was published below it.

    `pass_times` is what `python -m analysis columns` wrote, None where nothing was timed.
    """

    runs: RunStore
    table: pd.DataFrame
    pass_times: Mapping[str, Any] | None = None

    @property
    def usual(self) -> pd.DataFrame:
        """Measured greedy runs that are scored by probability and offer no further proposal."""
        rows = self.table[self.table["source"] != PUBLISHED]
        return rows[
            (rows["settings.score"] == "probability")
            & (rows["settings.extra_proposal"] == False)  # noqa: E712 - the column is of objects
            & (rows["settings.temperature"] == 0)
        ]

    @property
    def families(self) -> pd.DataFrame:
        """The `usual` runs on several families of problems: those of the small models, not of a benchmark."""
        rows = self.usual
        return rows[rows["tasks"].map(len) > 1]


def sections(evidence: Evidence) -> list[Section]:
    """All figures, in the order of the page; one for which there are no runs says so."""
    return [replace(build(evidence), chapter=chapter) for chapter, builds in _STORY.items() for build in builds]


def _section(
    figure: str, *drawn: object, name: str = "", suffix: str = "", note: str = "", **options: object
) -> Section:
    """A section on a figure of the catalogue, of what is `drawn` and with `options` of that figure.

    `name`, `suffix` and `note` tell it from others on the same figure.
    """
    return Section(
        name=name or figure,
        title=f"{FIGURES[figure].question}{suffix}",
        caption=FIGURES[figure].caption(note),
        points=getattr(figures, f"{figure}_points")(*drawn, **options),
        figure=getattr(figures, figure)(*drawn, **options),
    )


def _of_shown(rows: pd.DataFrame) -> pd.Series:
    """Which rows are of the MARS model with most runs, or of no MARS model at all."""
    mars = rows[rows["model.stage"] == "mars"]
    return (rows["model.stage"] != "mars") | (rows["model"] == (mars["model"].mode()[0] if len(mars) else ""))


def _frontier(evidence: Evidence) -> Section:
    rows = evidence.families
    return _section(
        "frontier",
        rows[_of_shown(rows) & ~rows["decoder"].isin([BASELINE, "block_cached"])],
        suffix=" The decoders on small models",
        note="Exact decoders write what one-token mode writes.",
    )


def _beside_published(evidence: Evidence) -> Section:
    table, rows = evidence.table, evidence.families
    ours = rows[(rows["decoder"] == "sliding_window") & (rows["model.sft_loss"] == True)]  # noqa: E712 - may be empty
    ours = ours[ours.groupby("model.fingerprint")["threshold"].transform("count") > 0]  # one-token mode is no curve
    swept = table["id"].str.startswith("published.threshold_sweep.") & (table["task"] == "GSM8K")
    theirs = table[swept & (table["model.sft_loss"] == True)]  # noqa: E712 - may be empty
    return _section(
        "frontier",
        pd.concat([ours, theirs.assign(series=theirs["model"].str.removeprefix("MARS, "))]),
        name="published",
        suffix=" Beside the published curves",
        note=f"Dashed lines with hollow marks are published ({SOURCE}): other models, with 0.5 and 7 billion "
        "parameters, on another task, GSM8K, without intervals. Compare shapes, not heights.",
    )


def _benchmark(evidence: Evidence) -> Section:
    """The adapters under each τ on one benchmark: that of most problems, on one machine, on which the texts depend."""
    rows = evidence.usual
    rows = rows[(rows["tasks"].map(len) == 1) & ~rows["timed"].astype(bool) & rows["accuracy"].notna()]
    alike = ["tasks", "problems", "hardware", "dtype", "batch_size", "seed", "settings.max_new_tokens"]
    swept = [part for _, part in rows.groupby(alike) if part["threshold"].nunique() > 1]
    part = max(swept, key=lambda part: (part["problems"].iloc[0], len(part)), default=rows.head(0))
    return _section(
        "frontier",
        part[part["decoder"] != BASELINE],
        name="benchmark",
        suffix=" A pretrained model on a benchmark",
        note="SmolLM2-135M on IFEval: one-token mode of the gated adapter writes the base's own text, that of the "
        "merged one does not.",
    )


def _batches(evidence: Evidence) -> Section:
    points = figures.batches_points(evidence.runs)
    if points.empty:
        return _section("batches", evidence.runs)
    found = "; ".join(f"{setting} is {words}" for setting, words in crossings(points).items())
    return _section("batches", evidence.runs, note=f"By their values, {found}. {_measured_with(points)}")


def _measured_with(points: pd.DataFrame) -> str:
    """What the CPU had for bfloat16: speed-ups differ with it."""
    return f"Measured with {cpu_units(points['hardware'].iloc[0])}."


def _equal_accuracy_speed(evidence: Evidence) -> Section:
    rows = evidence.families
    return _section(
        "equal_accuracy",
        rows[rows["rank"] != BASELINE_RANK],
        name="equal-accuracy-speed",
        suffix=f" Speed-up within {POINTS:g} points of AR",
        note="Small models; one bar per batch size. Bars that end before the dashed line are slower than AR.",
        points=POINTS,
        against="speedup",
    )


def _pass_cost(evidence: Evidence) -> Section:
    measured = evidence.pass_times
    note = "" if measured is None else f"Measured on {measured['hardware']}, {measured['date'][:10]}."
    return _section("pass_cost", measured, name="pass-cost", note=note)


_STORY: dict[str, tuple[Callable[[Evidence], Section], ...]] = {
    "What a pass costs": (_pass_cost,),
    "What masks know": (lambda evidence: _section("reliability", evidence.runs, evidence.table),),
    "Exact decoding against a threshold": (_benchmark, _frontier, _equal_accuracy_speed),
    "Beside the paper": (_beside_published,),
    "When not to use it": (_batches,),
}
"""The figures by chapter: ten at most, for a page that is read from the top."""
