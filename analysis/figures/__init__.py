"""Figures of runs, as Plotly figures. No torch here.

    from analysis.figures import frontier, measure
    from analysis.runs import read_runs

    runs = read_runs(Path("assets/runs"))
    table = measure(runs)                                     # once: every run with its intervals
    frontier(table[table["model.block_size"] == 8])           # any part of it

Each figure takes (part of) such a table, `acceptance` and `reliability` the store as well, `pass_cost` the times of
passes (`python -m analysis columns`), `breakdown` the counts of `python -m analysis breakdown`. Each has a function
called `…_points`, which gives the very numbers that are drawn, one row a mark. A mark carries the id of its run as
`customdata`. Figures are light; `template` changes one to dark. A figure says what a selection lacks. Text that comes
with the data is shown letter by letter.
"""

from analysis.figures.ablations import ablation, ablation_points
from analysis.figures.acceptance_lengths import acceptance, acceptance_points
from analysis.figures.batch_sizes import batches, batches_points
from analysis.figures.breakdown import breakdown, breakdown_points, breakdown_words
from analysis.figures.cache_blocks import caching, caching_points
from analysis.figures.calibration import reliability, reliability_points
from analysis.figures.frontiers import (
    efficiency,
    efficiency_points,
    families,
    families_points,
    frontier,
    frontier_points,
    scores,
    scores_points,
)
from analysis.figures.kinds_of_text import kinds, kinds_points, kinds_words
from analysis.figures.operating_points import equal_accuracy, equal_accuracy_points
from analysis.figures.pass_cost import pass_cost, pass_cost_points
from analysis.figures.points import POOLED, measure
from analysis.figures.style import template
from analysis.figures.thresholds import thresholds, thresholds_points, thresholds_words

__all__ = [
    "POOLED",
    "ablation",
    "ablation_points",
    "acceptance",
    "acceptance_points",
    "batches",
    "batches_points",
    "breakdown",
    "breakdown_points",
    "breakdown_words",
    "caching",
    "caching_points",
    "efficiency",
    "efficiency_points",
    "equal_accuracy",
    "equal_accuracy_points",
    "families",
    "families_points",
    "frontier",
    "frontier_points",
    "kinds",
    "kinds_points",
    "kinds_words",
    "measure",
    "pass_cost",
    "pass_cost_points",
    "reliability",
    "reliability_points",
    "scores",
    "scores_points",
    "template",
    "thresholds",
    "thresholds_points",
    "thresholds_words",
]
