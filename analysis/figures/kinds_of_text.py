"""Tokens per forward and speed-up of exact decoding on Spec-Bench: by its categories, and by the kind of the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.curves import errors
from analysis.figures.style import GUIDE, TITLE_HEIGHT, Look, drawn, empty, finish, plain
from analysis.figures.words import measure_words
from analysis.runs import RunStore
from analysis.runs.schema import cpu_units
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
    "math_reasoning": "word problems",
    "rag": "from documents",
}
CATEGORY, KIND = "category", "kind of text"
_MATHS = ("math", "math_reasoning")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+\S", re.MULTILINE)
_ITEMS = 3
"""Items that make an answer a list."""
FEWEST = 8
"""Questions that an interval needs."""
_SERIES = (("tokens_per_forward", "tokens per forward", 0), ("speedup", "speed-up over AR", 1))
_ALIKE = ("hardware", "dtype", "batch_size")
_ROW, _BETWEEN = 24, 40 + TITLE_HEIGHT
"""Pixels of a line of the figure, and between the panels."""

Run = Mapping[str, Any]


def kinds_points(store: RunStore, categories: Mapping[int, str]) -> pd.DataFrame:
    """One row a mark: `by` names the panel, `name` the category or kind, `drafts` the layout of exact decoding.

    Categories, by number in `categories`, are of the exact run with most questions beside AR; kinds of text also of
    the runs with other drafts on the same machine. The speed-up is Spec-Bench's: the ratio of the mean tokens per
    second of a question, prefill included. Fewer than eight questions have no interval.
    """
    rows = [
        {"id": run["id"], "by": by, "drafts": run["settings"]["layout"], "hardware": run["hardware"], **found}
        for by in (CATEGORY, KIND)
        for place, (run, plain_run) in enumerate(_pairs(store))
        if by == KIND or place == 0
        for found in _ratios(store.rows(run["id"]), store.rows(plain_run["id"]), categories, by)
    ]
    if not rows:
        return pd.DataFrame()
    points = pd.DataFrame(rows)
    gains = points.groupby(["by", "name"])["tokens_per_forward"].transform("first")
    order = points.assign(gain=gains, panel=points["by"] == KIND)
    order = order.sort_values(["panel", "gain", "name", "drafts"], ascending=[True, False, True, True])
    return points.loc[order.index].reset_index(drop=True)


def kind_of(text: str, category: str) -> str:
    """The kind of an answer to a question of this category: "code", "list", "maths" or "prose", the first that fits."""
    if "```" in text:
        return "code"
    if len(_ITEM.findall(text)) >= _ITEMS:
        return "list"
    return "maths" if category in _MATHS else "prose"


def kinds(store: RunStore, categories: Mapping[int, str]) -> go.Figure:
    """A panel of categories and one of kinds of text; a line each, with both ratios to AR on one axis."""
    points = kinds_points(store, categories)
    if points.empty:
        return empty("Nothing to draw: no exact run on Spec-Bench took turns with AR.", NAME)
    panels = [rows for _, rows in points.groupby("by", sort=False)]
    counts = [len(rows) for rows in panels]
    height = _ROW * sum(counts) + _BETWEEN * (len(panels) - 1)
    figure = make_subplots(
        rows=len(panels),
        cols=1,
        row_heights=counts,
        vertical_spacing=_BETWEEN / height,
        subplot_titles=[f"by {rows['by'].iloc[0]}" for rows in panels],
    )
    figure.update_annotations(font_size=13)
    for panel, rows in enumerate(panels, start=1):
        for column, label, number in _SERIES:
            look = Look.number(number)
            words = [_hover(row, column, label) for row in rows.to_dict("records")]
            figure.add_scatter(
                name=label,
                legendgroup=label,
                showlegend=panel == 1,
                x=rows[column].tolist(),
                y=[_label(row) for row in rows.to_dict("records")],
                error_x=errors(rows, column, look.colour, alone=True),
                **drawn(look, words, rows["id"].tolist(), size=9) | {"mode": "markers"},
                row=panel,
                col=1,
            )
    figure.add_vline(x=1, **GUIDE)
    figure.update_xaxes(title_text="× AR", rangemode="tozero", matches="x")
    figure.update_yaxes(autorange="reversed", tickfont_size=12)
    return finish(figure, NAME, plot_height=height)


def kinds_words(points: pd.DataFrame) -> str:
    """The kinds of text with most and with fewest tokens per forward of the run with most questions, and the CPU."""
    if points.empty:
        return ""
    first = points.iloc[0]
    machine = f"Measured with {cpu_units(first['hardware'])}."
    found = points[(points["id"] == first["id"]) & (points["by"] == KIND) & (points["n"] >= FEWEST)].to_dict("records")
    if len(found) < 2:
        return machine
    most, least = (
        f"{row['name']} ({measure_words(row, 'tokens_per_forward', '.2f')} tokens a pass, "
        f"{measure_words(row, 'speedup', '.2f')} × AR, n = {row['n']})"
        for row in (found[0], found[-1])
    )
    return f"By value, {first['drafts']} gains most on {most} and least on {least}. {machine}"


def _ratios(exact: pd.DataFrame, plain_run: pd.DataFrame, categories: Mapping[int, str], by: str) -> list[dict]:
    """Both ratios for each category or kind of text, as AR wrote it."""
    exact, plain_run = (rows.sort_values("number", ignore_index=True) for rows in (exact, plain_run))
    names = plain_run["number"].map(categories)
    if by == KIND:
        texts = zip(plain_run["text"], names, strict=True)
        names = pd.Series([kind_of(text, category) for text, category in texts], dtype=object)
    found = []
    for name in dict.fromkeys(names.dropna()):
        part, before = exact[names == name], plain_run[names == name]
        ratios = {"tokens_per_forward": tokens_per_forward(part), "speedup": speed_up_of_means(part, before)}
        row = {"name": name, "n": len(part)}
        for measure, interval in ratios.items():
            row |= interval.columns(measure)
            if len(part) < FEWEST:
                row |= {f"{measure}_low": float("nan"), f"{measure}_high": float("nan")}
        found.append(row)
    return found


def _pairs(store: RunStore) -> list[tuple[Run, Run]]:
    """The exact run on most questions (among several, with most tokens per forward), then those with other drafts on
    the same machine, each with the AR run of its turns.
    """
    runs = [entry for entry in store.entries if list(entry["tasks"]) == [TASK] and entry["group"]]
    plain_runs = {entry["group"]: entry for entry in runs if entry["decoder"] == BASELINE}
    exact = [entry for entry in runs if entry["decoder"] == EXACT and entry["group"] in plain_runs]
    if not exact:
        return []
    best = max(exact, key=lambda entry: (entry["problems"], tokens_per_forward(store.rows(entry["id"])).value))
    others = {
        entry["settings"]["layout"]: entry
        for entry in sorted(exact, key=lambda entry: entry["problems"])
        if _machine(entry) == _machine(best) and entry["settings"]["layout"] != best["settings"]["layout"]
    }
    return [(entry, plain_runs[entry["group"]]) for entry in (best, *others.values())]


def _machine(run: Run) -> tuple[Any, ...]:
    return (*(run[name] for name in _ALIKE), run["settings"]["max_new_tokens"])


def _label(row: Mapping[str, Any]) -> str:
    name = WORDS.get(row["name"], row["name"])
    return plain(f"{name}, n = {row['n']}" if row["by"] == CATEGORY else f"{name}, {row['drafts']}, n = {row['n']}")


def _hover(row: Mapping[str, Any], column: str, label: str) -> str:
    name = plain(WORDS.get(row["name"], row["name"]))
    return f"<b>{name}</b>, {plain(row['drafts'])}, n = {row['n']}<br>{measure_words(row, column, '.2f')} {label}"
