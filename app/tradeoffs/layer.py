"""Published numbers as a layer of a figure, one benchmark at a time."""

from __future__ import annotations

import pandas as pd

from analysis.figures.words import PUBLISHED
from analysis.runs import RunStore
from app.tradeoffs.catalogue import Figure, Scene

MEAN = "mean of six benchmarks"
ALL = "all that is published"


def layers(figure: Figure, table: pd.DataFrame, against: str) -> dict[str, pd.DataFrame]:
    """The rows of `table` that the layer can add to this figure, by name, the one with most marks first.

    Of a figure against speed they are the curves: series with several thresholds.
    """
    theirs = table[table["source"] == PUBLISHED]
    if not figure.layer or theirs.empty:
        return {}
    if not figure.axes:
        drawn = figure.points(Scene(runs=RunStore(), table=theirs, against=against, points=1.0))
        return {ALL: theirs} if len(drawn) else {}
    theirs = theirs[theirs["accuracy"].notna() & theirs[against].notna()]
    lengths = theirs.groupby("series")["threshold"].transform(lambda thresholds: thresholds.nunique(dropna=False))
    theirs = theirs[lengths > 1]
    names = theirs["tasks"].map(lambda tasks: MEAN if len(tasks) > 1 else str(tasks[0]) if tasks else "")
    order = names[names != ""].value_counts().index
    return {str(name): theirs[names == name] for name in order}
