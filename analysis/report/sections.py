"""What the report shows: its figures in their order, the runs that each is drawn from, and how to read it. No torch."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from analysis import figures
from analysis.figures.calibration import FEWEST
from analysis.figures.words import PUBLISHED, SOURCE
from analysis.report.evidence import Evidence, Section, of_shown, usual

POINTS = 2.0
"""Percentage points that a setting may surely lose less than, to be compared at equal accuracy."""
_HISTOGRAM_THRESHOLDS = (0.95, 0.7)


def sections(evidence: Evidence) -> list[Section]:
    """All figures, in the order of the page; one for which there are no runs says so."""
    return [build(evidence) for build in _SECTIONS]


def _frontier(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    rows = rows[of_shown(rows) & (rows["decoder"] != "block_cached")]
    return Section(
        name="frontier",
        title="Accuracy against tokens per forward: the decoders",
        caption="""Right is faster, up is better. A line runs through the thresholds of one decoder, from one-token mode
            on the left to the most lenient on the right. Decoders without a threshold are single marks: exact ones
            write what one-token mode writes. The dashed line is AR on the same problems, with its band.""",
        points=figures.frontier_points(rows),
        figure=figures.frontier(rows),
    )


def _training(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    rows = rows[rows["decoder"].isin(["sliding_window", "block_diffusion"])]
    return Section(
        name="training",
        title="Accuracy against tokens per forward: block sizes and the SFT loss",
        caption="""One line for each model: MARS of different block sizes, with and without the SFT loss, and block
            diffusion. In brackets: thousands of conversations seen, where models share a name.""",
        points=figures.frontier_points(rows),
        figure=figures.frontier(rows),
    )


def _beside_published(evidence: Evidence) -> Section:
    table, rows = evidence.table, usual(evidence.table)
    ours = rows[(rows["decoder"] == "sliding_window") & (rows["model.sft_loss"] == True)]  # noqa: E712 - may be empty
    swept = table["id"].str.startswith("published.threshold_sweep.") & (table["task"] == "GSM8K")
    chosen = pd.concat([ours, table[swept & (table["model.sft_loss"] == True)]])  # noqa: E712 - may be empty
    return Section(
        name="published",
        title="Beside the published curves",
        caption=f"""Dashed lines with hollow marks are published ({SOURCE}): other models, 0.5 and 7 billion parameters,
            on another task, GSM8K, without intervals. Compare shapes, not heights. Filled marks are ours.""",
        points=figures.frontier_points(chosen),
        figure=figures.frontier(chosen),
    )


def _speed(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    return Section(
        name="speed",
        title="Accuracy against speed-up, by batch size",
        caption="""Wall-clock throughput over that of autoregressive decoding on the same engine, from runs that took
            turns on one machine. Left of 1 a decoder is slower than AR. Intervals say how far problems vary, not how
            far the machine does.""",
        points=figures.frontier_points(rows, against="speedup"),
        figure=figures.frontier(rows, against="speedup"),
    )


def _efficiency(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    return Section(
        name="efficiency",
        title="What a token per forward is worth in seconds",
        caption="""Marks on the dashed line lose nothing: their passes take as long as those of AR. The further below,
            the more a wider pass costs; below the thin line the gain is lost altogether.""",
        points=figures.efficiency_points(rows),
        figure=figures.efficiency(rows),
    )


def _equal_accuracy(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    rows = rows[of_shown(rows)]
    return Section(
        name="equal-accuracy",
        title=f"Decoders at equal accuracy: within {POINTS:g} points of AR",
        caption=f"""Of each decoder the fastest setting that with 95 % confidence loses less than {POINTS:g} points to
            AR on the same problems (score test for pairs, corrected for the settings tried).""",
        points=figures.equal_accuracy_points(rows, points=POINTS),
        figure=figures.equal_accuracy(rows, points=POINTS),
    )


def _equal_accuracy_speed(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    return Section(
        name="equal-accuracy-speed",
        title=f"The same on the clock: speed-up within {POINTS:g} points of AR",
        caption="A bar for each batch size. Those that do not reach the dashed line are slower than AR.",
        points=figures.equal_accuracy_points(rows, points=POINTS, against="speedup"),
        figure=figures.equal_accuracy(rows, points=POINTS, against="speedup"),
    )


def _families(evidence: Evidence) -> Section:
    rows = usual(evidence.by_family)
    rows = rows[of_shown(rows) & rows["decoder"].isin(["sliding_window", "self_speculative"])]
    return Section(
        name="families",
        title="By family of problems",
        caption="The same axes in every panel. The band is that of AR on this family.",
        points=figures.families_points(rows),
        figure=figures.families(rows),
    )


def _ablation(evidence: Evidence) -> Section:
    rows = evidence.table
    return Section(
        name="ablation",
        title="Block size and SFT loss",
        caption=f"""Accuracy of models trained on equally many conversations, in one-token mode and at one threshold.
            Hollow marks are published ({SOURCE}): means of six benchmarks, other models.""",
        points=figures.ablation_points(rows),
        figure=figures.ablation(rows),
    )


def _scores(evidence: Evidence) -> Section:
    rows = evidence.table[(evidence.table["source"] != PUBLISHED) & (evidence.table["settings.extra_proposal"] != True)]  # noqa: E712
    return Section(
        name="scores",
        title="Probability, margin or entropy",
        caption="The score that is held against the threshold. Where lines lie on each other, it does not matter.",
        points=figures.scores_points(rows),
        figure=figures.scores(rows),
    )


def _caching(evidence: Evidence) -> Section:
    rows = evidence.table
    return Section(
        name="caching",
        title="Cache block size and batch size",
        caption=f"""Speed-up of block_cached over AR, with its interval; blue is faster than AR, orange slower. The
            published map ({SOURCE}) is over a baseline of its own.""",
        points=figures.caching_points(rows),
        figure=figures.caching(rows),
    )


def _acceptance(evidence: Evidence) -> Section:
    rows = usual(evidence.table)
    at = (rows["decoder"] == "sliding_window") & rows["threshold"].isin(_HISTOGRAM_THRESHOLDS)
    rows = rows[of_shown(rows) & (at | (rows["decoder"] == "self_speculative"))]
    rows = rows.sort_values(["series", "threshold", "n", "id"]).drop_duplicates(["series", "threshold"], keep="last")
    return Section(
        name="acceptance",
        title="How many tokens a pass accepts",
        caption="Share of the passes that accepted tokens, by how many they accepted.",
        points=figures.acceptance_points(evidence.runs, rows),
        figure=figures.acceptance(evidence.runs, rows),
    )


def _reliability(evidence: Evidence) -> Section:
    rows = evidence.table
    return Section(
        name="reliability",
        title="Do the scores mean what they say?",
        caption=f"""How often a mask's proposal is the token that one-token mode writes there, by its score; a panel
            for each depth, the number of masks read. On the dotted diagonal a proposal is right as often as it is sure.
            Bars: the share of the proposals in each bin; bins of fewer than {FEWEST} are left out.""",
        points=figures.reliability_points(evidence.runs, rows),
        figure=figures.reliability(evidence.runs, rows),
    )


_SECTIONS: tuple[Callable[[Evidence], Section], ...] = (
    *(_frontier, _training, _beside_published, _speed, _efficiency, _equal_accuracy, _equal_accuracy_speed),
    *(_families, _ablation, _scores, _caching, _acceptance, _reliability),
)
