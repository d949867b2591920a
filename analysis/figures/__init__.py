"""Figures of runs, as Plotly figures. No torch here.

    from analysis.figures import frontier, measure
    from analysis.runs import read_runs

    runs = read_runs(Path("assets/runs"))
    table = measure(runs)                                     # once: every run with its intervals
    frontier(table[table["model.block_size"] == 8])           # any part of it

Each figure takes (part of) such a table, some the store or a file of measured passes, and has a function `…_points`
with the very numbers that are drawn, one row a mark. A mark carries the id of its run as `customdata`. All are light;
`template` changes one to dark. A figure says what a selection lacks. Text that comes with the data is shown letter by
letter.
"""

from analysis.figures.batch_sizes import batches, batches_points
from analysis.figures.calibration import reliability, reliability_points
from analysis.figures.frontiers import families, families_points, frontier, frontier_points
from analysis.figures.operating_points import equal_accuracy, equal_accuracy_points
from analysis.figures.pass_cost import pass_cost, pass_cost_points
from analysis.figures.points import POOLED, measure
from analysis.figures.style import template

__all__ = [
    "POOLED",
    "batches",
    "batches_points",
    "equal_accuracy",
    "equal_accuracy_points",
    "families",
    "families_points",
    "frontier",
    "frontier_points",
    "measure",
    "pass_cost",
    "pass_cost_points",
    "reliability",
    "reliability_points",
    "template",
]
