"""Figures of runs, as Plotly figures. No torch here.

    from analysis.figures import frontier, measure
    from analysis.runs import read_runs

    runs = read_runs(Path("assets/runs"))
    table = measure(runs)                                     # once: every run with its intervals
    frontier(table[table["model.block_size"] == 8])           # any part of it, of one batch size

Each figure has a function `…_points` with the very numbers that are drawn, one row a mark. A mark carries the id of its
run as `customdata`. All are light; `template` changes one to dark. A figure says what a selection lacks. Text that
comes with the data is shown letter by letter.
"""

from analysis.figures.frontier import frontier, frontier_points
from analysis.figures.operating_points import equal_accuracy, equal_accuracy_points
from analysis.figures.points import POOLED, measure
from analysis.figures.style import template

__all__ = [
    "POOLED",
    "equal_accuracy",
    "equal_accuracy_points",
    "frontier",
    "frontier_points",
    "measure",
    "template",
]
