"""Tokens per forward and speed-up of exact decoding by kind of text: Spec-Bench's categories, on a real model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import errors
from analysis.figures.style import GUIDE, PANEL_HEIGHT, Look, drawn, empty, finish, plain
from analysis.figures.words import measure_words
from analysis.runs import RunStore
from analysis.stats.pairs import speed_up_of_means
from analysis.stats.resampling import tokens_per_forward
from mars.decoders import BASELINE, EXACT

NAME = "kinds"
TASK = "spec_bench"
WORDS = {
    "writing": "writing",
    "roleplay": "role play",
    "reasoning": "reasoning",
    "math": "maths",
    "coding": "code",
    "extraction": "extraction",
    "stem": "science",
    "humanities": "humanities",
    "translation": "translation",
    "summarization": "summary",
    "qa": "short answers",
    "math_reasoning": "maths word problems",
    "rag": "answers from documents",
}
_SERIES = (("tokens_per_forward", "tokens per forward", 0), ("speedup", "speed-up over AR", 1))
_ROW = 24
"""Pixels of a line of the figure."""


def kinds_points(store: RunStore, categories: Mapping[int, str]) -> pd.DataFrame:
    """One row a category, the most tokens per forward first, of the exact run with most questions beside AR.

    `categories` are those of the questions by number. The speed-up is Spec-Bench's: the ratio of the mean tokens per
    second of a question, prefill included.
    """
    pair = _pair(store)
    if pair is None:
        return pd.DataFrame()
    exact, plain_run = (store.rows(run["id"]) for run in pair)
    rows = []
    kinds = exact["number"].map(categories)
    for category in dict.fromkeys(kinds.dropna()):
        part = exact[kinds == category].sort_values("number")
        before = plain_run[plain_run["number"].isin(part["number"])].sort_values("number")
        rows.append(
            {
                "id": pair[0]["id"],
                "category": category,
                "n": len(part),
                **tokens_per_forward(part).columns("tokens_per_forward"),
                **speed_up_of_means(part, before).columns("speedup"),
                "hardware": pair[0]["hardware"],
            }
        )
    return pd.DataFrame(rows).sort_values("tokens_per_forward", ascending=False, ignore_index=True)


def kinds(store: RunStore, categories: Mapping[int, str]) -> go.Figure:
    """A line a category, with both ratios to AR on one axis."""
    points = kinds_points(store, categories)
    if points.empty:
        return empty("Nothing to draw: no exact run on Spec-Bench took turns with AR.", NAME)
    names = [plain(WORDS.get(name, name)) for name in points["category"]]
    figure = go.Figure()
    for column, label, number in _SERIES:
        look = Look.number(number)
        words = [_hover(row, column, label) for row in points.to_dict("records")]
        figure.add_scatter(
            name=label,
            x=points[column].tolist(),
            y=names,
            error_x=errors(points, column, look.colour, alone=True),
            **drawn(look, words, points["id"].tolist(), size=9) | {"mode": "markers"},
        )
    figure.add_vline(x=1, **GUIDE)
    figure.update_xaxes(title_text="× AR", rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    return finish(figure, NAME, plot_height=max(PANEL_HEIGHT, _ROW * len(points)))


def _pair(store: RunStore) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """The exact run on most questions (among several, with most tokens per forward), and the AR run of its turns."""
    runs = [entry for entry in store.entries if list(entry["tasks"]) == [TASK] and entry["group"]]
    plain_runs = {entry["group"]: entry for entry in runs if entry["decoder"] == BASELINE}
    exact = [entry for entry in runs if entry["decoder"] == EXACT and entry["group"] in plain_runs]
    if not exact:
        return None
    best = max(exact, key=lambda entry: (entry["problems"], tokens_per_forward(store.rows(entry["id"])).value))
    return best, plain_runs[best["group"]]


def _hover(row: Mapping[str, Any], column: str, label: str) -> str:
    name = plain(WORDS.get(row["category"], row["category"]))
    return f"<b>{name}</b>, n = {row['n']}<br>{measure_words(row, column, '.2f')} {label}"
