"""Figures of runs, as Plotly figures. No torch here.

    from analysis.figures import FIGURES, measure
    from analysis.runs import read_runs

    runs = read_runs(Path("assets/runs"))
    table = measure(runs)                                     # once: every run with its intervals
    draw = FIGURES["frontier"].draw
    draw(table[table["model.block_size"] == 8])               # any part of it, of one batch size

The `points` of a figure are the very numbers that are drawn, one row a mark. A mark carries the id of its run as
`customdata`. All are light; `template` changes one to dark. A figure says what a selection lacks. Text that comes with
the data is shown letter by letter. `FIGURES` has all of them, as Trade-offs and `reproduce` offer them.
"""

from analysis.figures.frontier import FRONTIER
from analysis.figures.operating_points import EQUAL_ACCURACY
from analysis.figures.points import POOLED, measure
from analysis.figures.style import template

FIGURES = {"frontier": FRONTIER, "equal_accuracy": EQUAL_ACCURACY}
"""By the names that links and `analysis/studies.py` give them; the first is shown first."""

__all__ = ["FIGURES", "POOLED", "measure", "template"]
