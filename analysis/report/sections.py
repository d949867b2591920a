"""The sections of the report: its figures in order, and the runs that each is drawn from. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from analysis import figures
from analysis.figures.catalogue import DESCRIPTIONS
from analysis.figures.words import SOURCE
from analysis.report.evidence import Evidence, Section, of_shown, usual

POINTS = 2.0
"""Percentage points that a setting may surely lose less than, to be compared at equal accuracy."""
_HISTOGRAM_THRESHOLDS = (0.95, 0.7)


def sections(evidence: Evidence) -> list[Section]:
    """All figures, in the order of the page; one for which there are no runs says so."""
    return [replace(build(evidence), chapter=chapter) for chapter, builds in _STORY.items() for build in builds]


def _section(
    name: str, described: str, *, points: pd.DataFrame, figure: go.Figure, suffix: str = "", note: str = ""
) -> Section:
    """A section on a figure of the catalogue; `suffix` and `note` tell it from others on the same figure."""
    description = DESCRIPTIONS[described]
    title = f"{description.title}{suffix}"
    return Section(name=name, title=title, caption=description.caption(note), points=points, figure=figure)


def _frontier(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    rows = rows[of_shown(rows) & (rows["decoder"] != "block_cached")]
    return _section(
        "frontier",
        "frontier",
        suffix=": the decoders in tokens per forward",
        note="Exact decoders write what one-token mode writes.",
        points=figures.frontier_points(rows),
        figure=figures.frontier(rows),
    )


def _beside_published(evidence: Evidence) -> Section:
    table, rows = evidence.table, usual(evidence.table)
    ours = rows[(rows["decoder"] == "sliding_window") & (rows["model.sft_loss"] == True)]  # noqa: E712 - may be empty
    swept = table["id"].str.startswith("published.threshold_sweep.") & (table["task"] == "GSM8K")
    chosen = pd.concat([ours, table[swept & (table["model.sft_loss"] == True)]])  # noqa: E712 - may be empty
    return _section(
        "published",
        "frontier",
        suffix=": beside the published curves",
        note=f"Dashed lines with hollow marks are published ({SOURCE}): other models, with 0.5 and 7 billion "
        "parameters, on another task, GSM8K, without intervals. Compare shapes, not heights.",
        points=figures.frontier_points(chosen),
        figure=figures.frontier(chosen),
    )


def _speed(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    return _section(
        "speed",
        "frontier",
        suffix=": speed-up by batch size",
        note="Speed is wall-clock throughput over that of AR on the same engine, from runs that took turns on one "
        "machine. Left of 1 a decoder is slower than AR. Intervals cover problems, not the machine.",
        points=figures.frontier_points(rows, against="speedup"),
        figure=figures.frontier(rows, against="speedup"),
    )


def _efficiency(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    return _section(
        "efficiency",
        "efficiency",
        points=figures.efficiency_points(rows),
        figure=figures.efficiency(rows),
    )


def _equal_accuracy_speed(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    return _section(
        "equal-accuracy-speed",
        "equal_accuracy",
        suffix=f": speed-up within {POINTS:g} points of AR",
        note="One bar per batch size. Bars below the dashed line are slower than AR.",
        points=figures.equal_accuracy_points(rows, points=POINTS, against="speedup"),
        figure=figures.equal_accuracy(rows, points=POINTS, against="speedup"),
    )


def _pass_cost(evidence: Evidence) -> Section:
    measured = evidence.pass_times
    note = "" if measured is None else f"Measured on {measured['hardware']}, {measured['date'][:10]}."
    return _section(
        "pass-cost",
        "pass_cost",
        note=note,
        points=figures.pass_cost_points(measured),
        figure=figures.pass_cost(measured),
    )


def _kinds(evidence: Evidence) -> Section:
    return _section(
        "kinds",
        "kinds",
        points=figures.kinds_points(evidence.runs, evidence.categories),
        figure=figures.kinds(evidence.runs, evidence.categories),
    )


def _ablation(evidence: Evidence) -> Section:
    rows = evidence.table
    return _section(
        "ablation",
        "ablation",
        points=figures.ablation_points(rows),
        figure=figures.ablation(rows),
    )


def _acceptance(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    at = (rows["decoder"] == "sliding_window") & rows["threshold"].isin(_HISTOGRAM_THRESHOLDS)
    rows = rows[of_shown(rows) & (at | (rows["decoder"] == "self_speculative"))]
    rows = rows.sort_values(["series", "threshold", "n", "id"]).drop_duplicates(["series", "threshold"], keep="last")
    return _section(
        "acceptance",
        "acceptance",
        points=figures.acceptance_points(evidence.runs, rows),
        figure=figures.acceptance(evidence.runs, rows),
    )


def _reliability(evidence: Evidence) -> Section:
    rows = evidence.table
    return _section(
        "reliability",
        "reliability",
        points=figures.reliability_points(evidence.runs, rows),
        figure=figures.reliability(evidence.runs, rows),
    )


_STORY: dict[str, tuple[Callable[[Evidence], Section], ...]] = {
    "What a pass costs": (_pass_cost, _efficiency),
    "What masks know": (_reliability, _acceptance),
    "Exact decoding against a threshold": (_frontier, _equal_accuracy_speed, _kinds),
    "Beside the paper": (_beside_published, _ablation),
    "When not to use it": (_speed,),
}
"""The figures by chapter: ten at most, for a page that is read from the top."""
