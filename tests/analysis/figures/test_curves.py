"""Lines of any figure: looks that stay, published ones that differ, and what they can be drawn against."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis import figures


def test_series_keep_their_look_when_filtered(traces: Any, table: pd.DataFrame) -> None:
    whole = traces(figures.frontier(table), "b4False · sliding_window")[0]
    alone = traces(figures.frontier(table[table["model.name"] == "b4False"]), "b4False · sliding_window")[0]
    assert (whole.line.color, whole.marker.symbol, whole.line.dash) == (
        alone.line.color,
        alone.marker.symbol,
        alone.line.dash,
    )


def test_published_curves_are_hollow_dotted_and_after_ours(traces: Any, table: pd.DataFrame) -> None:
    figure = figures.frontier(table)
    theirs = traces(figure, "published (arXiv 2604.07023)")
    assert theirs
    assert all(trace.marker.symbol.endswith("-open") and trace.line.dash == "dot" for trace in theirs)
    ours = [trace for trace in figure.data if trace not in theirs and trace.hoverinfo != "skip"]
    assert not any(trace.marker.symbol.endswith("-open") for trace in ours)
    assert figure.data.index(theirs[0]) > figure.data.index(ours[-1])


@pytest.mark.parametrize("figure", [figures.frontier, figures.equal_accuracy])
def test_what_nothing_can_be_drawn_against_is_refused(figure: Any, table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"against must be one of tokens_per_forward, .*, got 'beauty'"):
        figure(table, against="beauty")
