"""The view “Under load”: load tests are not runs, so they have a view of their own beside the figures."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.figures.catalogue import UNDER_LOAD
from analysis.figures.style import empty
from analysis.figures.under_load import NAME, POINTS, under_load, under_load_points
from analysis.figures.words import interval_words
from analysis.runs.loads import LoadTest
from app.tradeoffs.tables import csv
from app.tradeoffs.view import View

__all__ = ["NAME", "NO_TEST", "chosen", "draw", "numbers"]

NO_TEST = (
    "No load test is there yet. This makes one, on a machine that does nothing else: "
    "python -m tests.performance.arrivals --checkpoint SOURCE --save assets/runs"
)
_COLUMNS = (
    ("Lane", "series", ""),
    ("Arrivals", "load", ""),
    ("Requests a second", "offered", ".2f"),
    ("n", "requests", ".0f"),
    ("Refused", "refused", ".0f"),
    ("Goodput", "goodput", ".2f"),
    ("Tokens a second", "tokens_per_second", ".1f"),
    ("First token p50 (s)", "ttft_p50", ".3f"),
    ("First token p99 (s)", "ttft_p99", ".3f"),
    ("Further tokens p50 (s)", "tpot_p50", ".4f"),
    ("Further tokens p99 (s)", "tpot_p99", ".4f"),
    ("Wrong texts", "wrong", ".0f"),
    ("Right", "right", ".0f"),
    ("Judged", "judged", ".0f"),
    ("Accuracy against AR (points)", POINTS, "+.1f"),
    ("Pairs", "pairs", ".0f"),
)


def draw(loads: tuple[LoadTest, ...], view: View) -> dict[str, Any]:
    """As `app.tradeoffs.drawing.draw`; `view.runs` names the load test, by default the newest."""
    test = chosen(loads, view)
    figure = empty("No load test is there yet.", NAME) if test is None else under_load(test)
    drawn = figure.to_plotly_json()
    drawn["layout"].pop("template", None)
    return {
        "figure": drawn,
        "caption": _caption(test) if test else "",
        "empty": "" if test else NO_TEST,
        "axes": [],
        "against": view.against,
        "runs": {
            "value": test.id if test else "",
            "options": [{"value": one.id, "label": f"{one.model}, {one.date[:10]}, {one.hardware}"} for one in loads],
        },
        "batch": {"value": 0, "options": []},
        "more": None,
        "filters": [],
        "words": "",
        "usual": True,
        "tasks": [],
        "task": view.task,
        "layers": [],
        "layer": "",
        "summary": "",
        "answer": None,
        "live": None,
        "table": _table(under_load_points(test)) if test else {"columns": [], "rows": []},
    }


def chosen(loads: tuple[LoadTest, ...], view: View) -> LoadTest | None:
    """The load test that a view names; the newest if it names none that exists."""
    return next((one for one in loads if one.id == view.runs), next(iter(loads), None))


def numbers(loads: tuple[LoadTest, ...], view: View) -> str:
    """The numbers that are drawn, as CSV."""
    test = chosen(loads, view)
    return csv(under_load_points(test)) if test else ""


def _caption(test: LoadTest) -> str:
    return UNDER_LOAD.caption().format(
        ttft=test.limits.ttft,
        tpot=test.limits.tpot,
        seconds=test.seconds,
        questions=test.questions,
        model=test.model,
        dtype=test.dtype,
        places=test.places,
        threads=test.threads,
        hardware=test.hardware,
        date=test.date[:10],
        commit=(test.commit or "unknown")[:10],
        seed=test.seed,
    )


def _table(points: pd.DataFrame) -> dict[str, Any]:
    """Rows without a run, so that none opens a card."""
    rows = points.sort_values(["rank", "offered"]).to_dict("records")
    return {
        "columns": [{"label": label, "number": bool(form)} for label, _, form in _COLUMNS],
        "rows": [{"id": "", "cells": [_cell(row, name, form) for _, name, form in _COLUMNS]} for row in rows],
    }


def _cell(row: dict[str, Any], name: str, form: str) -> list[Any]:
    """The words, with the interval of a value that has one, and what the column is sorted by."""
    value, low, high = (row.get(column, float("nan")) for column in (name, f"{name}_low", f"{name}_high"))
    if not form:
        return [str(value)]
    return ["", None] if pd.isna(value) else [interval_words(value, low, high, form=form), float(value)]
