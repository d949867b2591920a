"""The cost of a threshold on a real benchmark: prompts of IFEval that are followed, against tokens per forward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.figures.curves import AXES, add_baseline, errors
from analysis.figures.points import ACCURACY, AR_ACCURACY, PER_FORWARD
from analysis.figures.style import Look, drawn, empty, finish, plain
from analysis.figures.words import measure_words
from analysis.runs import RunStore
from analysis.runs.baseline import is_plain
from analysis.stats.intervals import Interval
from analysis.stats.pairs import paired_difference
from analysis.stats.resampling import accuracy, tokens_per_forward
from mars.decoders import BASELINE, EXACT

NAME = "thresholds"
TASK = "ifeval"
CHANGE = "change"
ONE_TOKEN = "one-token mode"
_ADAPTERS = {"smollm2-135m-gated": "gated adapter", "smollm2-135m-merged": "merged adapter"}
_ALIKE = ("problems", "hardware", "dtype", "batch_size", "seed")
"""What runs share that are drawn together: a text in bfloat16 depends on the machine and on the rows beside it."""
_ROOM = 0.5
"""Tokens per forward to the right of the furthest mark, for its name."""
_WORDS = {"size": 10}
_NONE = Interval(float("nan"), float("nan"), float("nan"))

Run = Mapping[str, Any]


def thresholds_points(store: RunStore) -> pd.DataFrame:
    """One row a setting of the adapters that were run under several τ, of those on most prompts.

    `change` is the accuracy minus that of the same adapter in one-token mode on the same prompts, in points, with the
    score interval; `ar_accuracy` is that of AR with the adapter's base.
    """
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in store.entries:
        if list(run["tasks"]) == [TASK] and not run["timed"] and is_plain(run):
            alike = (*(run[name] for name in _ALIKE), run["settings"]["max_new_tokens"])
            groups.setdefault(alike, []).append(run)
    group = max(groups.values(), key=lambda runs: (bool(_swept(runs)), runs[0]["problems"], len(runs)), default=[])
    rows = [_row(store, run, group) for run in _swept(group)]
    if not rows:
        return pd.DataFrame()
    order = {"adapter": True, "exact": True, "threshold": False}
    points = pd.DataFrame(rows).sort_values(list(order), ascending=list(order.values()), na_position="first")
    return points.reset_index(drop=True)


def thresholds(store: RunStore) -> go.Figure:
    """A line for each adapter through its τ, whose values stand at the ends of the intervals, and a star if exact."""
    points = thresholds_points(store)
    if points.empty:
        return empty("Nothing to draw: no adapter was run under several τ on IFEval.", NAME)
    figure = go.Figure()
    add_baseline(figure, points, {})
    for index, (adapter, part) in enumerate(points.groupby("adapter", sort=False)):
        for exact, rows in part.groupby("exact"):
            name = plain(f"{adapter}, {'exact' if exact else 'by τ'}")
            figure.add_traces(_traces(name, rows, Look.number(index), exact=bool(exact), above=index % 2 == 0))
    figure.update_xaxes(title_text=AXES[PER_FORWARD], range=[0.9, points[PER_FORWARD].max() + _ROOM])
    figure.update_yaxes(title_text="prompts followed (%)", tickformat=".0%")
    return finish(figure, NAME)


def _traces(name: str, rows: pd.DataFrame, look: Look, *, exact: bool, above: bool) -> list[go.Scatter]:
    """The marks of an adapter, and their words: beside a star, at the upper or lower ends of the intervals of τ."""
    records = _records(rows)
    words = [_short(row) for row in records]
    marks = drawn(look, [_hover(row) for row in records], rows["id"].tolist())
    if exact:
        marks |= {"mode": "markers+text", "text": words, "textposition": "middle right", "textfont": _WORDS}
        marks["marker"] |= {"symbol": "star", "size": 13}
    found = [
        go.Scatter(
            name=name,
            legendgroup=name,
            x=rows[PER_FORWARD].tolist(),
            y=rows[ACCURACY].tolist(),
            error_y=errors(rows, ACCURACY, look.colour),
            **marks,
        )
    ]
    if not exact:
        ends = rows[f"{ACCURACY}_{'high' if above else 'low'}"]
        found.append(
            go.Scatter(
                legendgroup=name,
                showlegend=False,
                x=rows[PER_FORWARD].tolist(),
                y=ends.tolist(),
                mode="text",
                text=words,
                textposition="top center" if above else "bottom center",
                textfont=_WORDS,
                hoverinfo="skip",
            )
        )
    return found


def thresholds_words(points: pd.DataFrame) -> str:
    """How many τ lose accuracy by their intervals; the least τ of each adapter and exact decoding with most tokens."""
    if points.empty:
        return ""
    swept = points[points["threshold"].notna()]
    lost = [
        f"{row['decoding']}, {row['adapter']}: {_change(row)} points"
        for row in _records(swept[swept[f"{CHANGE}_high"] < 0])
    ]
    named = f" ({'; '.join(lost)})" if lost else ""
    least = _records(swept.groupby("adapter", sort=False).tail(1))
    best = _records(points[points["exact"]].sort_values(PER_FORWARD).groupby("adapter").tail(1))
    told = [
        f"{row['decoding']} with the {row['adapter']}: {measure_words(row, PER_FORWARD, '.2f')} tokens a pass, "
        f"{_change(row)} points"
        for row in (*least, *best)
    ]
    counted = f"{len(lost) or 'none'} of {len(swept)}, not corrected for their number{named}"
    return f"Settings of τ whose interval shows a loss against one-token mode: {counted}. {'; '.join(told)}."


def _change(row: Run) -> str:
    return measure_words(row, CHANGE, "+.1f")


def _swept(runs: Sequence[Run]) -> list[Run]:
    """The runs of adapters that were run under several τ."""
    shown = [run for run in runs if _decoding(run)]
    counts = Counter(_weights(run) for run in shown if run["settings"]["threshold"] is not None)
    return [run for run in shown if counts[_weights(run)] > 1]


def _row(store: RunStore, run: Run, group: Sequence[Run]) -> dict[str, Any]:
    name, rows = run["model"]["name"], store.rows(run["id"])
    one_token = [other for other in group if _weights(other) == _weights(run) and _decoding(other) == ONE_TOKEN]
    ar = [other for other in group if other["decoder"] == BASELINE and _weights(other) == run["model"].get("base")]
    change = paired_difference(rows, store.rows(one_token[0]["id"])).score_interval() if one_token else _NONE
    return {
        "id": run["id"],
        "adapter": _ADAPTERS.get(name, name),
        "decoding": _decoding(run),
        "exact": run["decoder"] == EXACT,
        "threshold": float("nan") if run["settings"]["threshold"] is None else run["settings"]["threshold"],
        "n": len(rows),
        **accuracy(rows).columns(ACCURACY),
        **tokens_per_forward(rows).columns(PER_FORWARD),
        **change.columns(CHANGE),
        **(accuracy(store.rows(ar[0]["id"])) if ar else _NONE).columns(AR_ACCURACY),
    }


def _weights(run: Run) -> str:
    return str(run["model"]["fingerprint"])


def _decoding(run: Run) -> str:
    """The setting in words; nothing for what is not drawn here."""
    settings = run["settings"]
    if run["decoder"] == EXACT:
        return f"exact ({settings['layout']})"
    if run["decoder"] != "sliding_window" or settings["score"] != "probability" or settings["extra_proposal"]:
        return ""
    return ONE_TOKEN if settings["threshold"] is None else f"τ = {settings['threshold']:g}"


def _short(row: Run) -> str:
    """The words of a mark: its τ, or the layout of exact decoding."""
    if row["exact"]:
        return str(row["decoding"]).removeprefix("exact (").removesuffix(")")
    return "" if row["decoding"] == ONE_TOKEN else f"{row['threshold']:g}".lstrip("0")


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.to_dict("records")
    return found


def _hover(row: Run) -> str:
    lines = [
        f"<b>{plain(row['decoding'])}</b>, {plain(row['adapter'])}, n = {row['n']}",
        f"{measure_words(row, ACCURACY, '.1f', 100)} % of the prompts followed",
        f"{_change(row)} points against one-token mode",
        f"{measure_words(row, PER_FORWARD, '.2f')} tokens per forward",
    ]
    return "<br>".join(lines)
