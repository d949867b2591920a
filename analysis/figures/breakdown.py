"""The gains of exact decoding by position, by entropy, by number of masks and by hours of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.curves import errors
from analysis.figures.style import GUIDE, Look, drawn, empty, finish
from analysis.figures.words import measure_words
from analysis.stats.intervals import Interval
from analysis.stats.resampling import ratio_of_sums

NAME = "breakdown"
MEASURE = "tokens_per_forward"
FEWEST = 8
"""Questions of which a bin must hold tokens."""
PANELS = {
    "position": "position in the answer (tokens)",
    "entropy": "entropy of the model at a token (nats)",
    "masks": "masks of a block",
    "training": "hours of training (estimated from its log)",
}
_HEIGHT, _BETWEEN = 150, 74
"""Pixels of a panel, and between two."""


def breakdown_points(measured: Mapping[str, Any] | None) -> pd.DataFrame:
    """One row a mark of a file of `python -m analysis breakdown`: `by` names the panel, `label` the place in it.

    Positions and entropies are those at the model's own block size. `n` are questions; bins that fewer than eight
    reach are left out. Marks by training are estimates, without n and interval.
    """
    if measured is None:
        return pd.DataFrame()
    counts = {each["block_size"]: each["questions"] for each in measured["results"]}
    usual = counts.get(measured["block_size"]) or next(iter(counts.values()))
    rows: list[dict[str, Any]] = []
    for by, edges in (("position", measured["positions"]), ("entropy", measured["entropies"])):
        for place, label in enumerate(_labels(edges, whole=by == "position")):
            rows.append({"by": by, "label": label, **_rate([question[by][place] for question in usual])})
    for size, questions in counts.items():
        pairs = [(question["tokens"], question["passes"]) for question in questions]
        rows.append({"by": "masks", "label": f"{size - 1}", **_rate(pairs)})
    found = [row for row in rows if row["n"] >= min(FEWEST, len(usual))]
    nothing = dict.fromkeys(("n", "tokens", "passes", f"{MEASURE}_low", f"{MEASURE}_high"), float("nan"))
    found += [
        {"by": "training", "label": f"{each['hours']:.1f}", **nothing, MEASURE: each["tokens"]}
        for each in measured["training"]
    ]
    return pd.DataFrame(found)


def breakdown(measured: Mapping[str, Any] | None) -> go.Figure:
    """A panel for each of the four, one below the other, on a line of AR."""
    points = breakdown_points(measured)
    if points.empty:
        return empty("Nothing to draw: nothing was counted. Run python -m analysis breakdown.", NAME)
    shown = [by for by in PANELS if (points["by"] == by).any()]
    height = len(shown) * _HEIGHT + (len(shown) - 1) * _BETWEEN
    figure = make_subplots(rows=len(shown), cols=1, vertical_spacing=_BETWEEN / height if len(shown) > 1 else 0)
    for number, by in enumerate(shown):
        rows, look = points[points["by"] == by], Look.number(number)
        figure.add_trace(
            go.Scatter(
                name=PANELS[by],
                showlegend=False,
                x=rows["label"].tolist(),
                y=rows[MEASURE].tolist(),
                error_y=errors(rows, MEASURE, look.colour, alone=True) if rows["n"].notna().all() else None,
                **drawn(look, [_hover(row) for row in rows.to_dict("records")]),
            ),
            row=number + 1,
            col=1,
        )
        figure.update_xaxes(title_text=PANELS[by], type="category", tickfont_size=11, row=number + 1, col=1)
    figure.add_hline(y=1, **GUIDE)
    figure.update_yaxes(title_text="tokens/forward")
    return finish(figure, NAME, plot_height=height)


def breakdown_words(points: pd.DataFrame) -> str:
    """A sentence for each panel: its first and its last mark."""
    told = {
        "position": "A pass writes {from} tokens in tokens {first} of an answer and {to} in tokens {last}.",
        "entropy": "It writes {from} where the entropy is {first} nats and {to} where it is {last}.",
        "masks": "It writes {from} with {first} mask and {to} with {last}.",
        "training": "By its log, it writes {from} after {first} hours of training and {to} after {last}.",
    }
    return " ".join(told[by].format(**ends) for by, ends in _ends(points))


def _ends(points: pd.DataFrame) -> Iterator[tuple[str, dict[str, str]]]:
    for by in PANELS:
        rows = points[points["by"] == by].to_dict("records") if len(points) else []
        if len(rows) > 1:
            words = [measure_words(row, MEASURE, ".2f") for row in (rows[0], rows[-1])]
            yield by, {"first": rows[0]["label"], "from": words[0], "last": rows[-1]["label"], "to": words[1]}


def _rate(pairs: Sequence[Sequence[int]]) -> dict[str, float]:
    """Tokens per forward over the questions that have such tokens; without an interval if a resample has no pass."""
    rows = pd.DataFrame([pair for pair in pairs if pair[0]], columns=["tokens", "passes"])
    tokens, passes = rows["tokens"].sum(), rows["passes"].sum()
    try:
        found = ratio_of_sums(rows.assign(task="", number=range(len(rows))), "tokens", "passes")
    except ValueError:
        found = Interval(tokens / passes) if passes else Interval()
    return {"n": len(rows), "tokens": tokens, "passes": passes, **found.columns(MEASURE)}


def _labels(edges: Sequence[float], *, whole: bool) -> list[str]:
    """Each bin in words: numbers of tokens are counted from 1, and include both ends."""
    if whole:
        return [f"{first + 1}–{end}" for first, end in pairwise(edges)] + [f"{edges[-1] + 1}+"]
    return [f"< {edges[1]:g}"] + [f"{low:g}–{high:g}" for low, high in pairwise(edges[1:])] + [f"≥ {edges[-1]:g}"]


def _hover(row: Mapping[str, Any]) -> str:
    counts = (
        f"<br>{int(row['tokens']):,} tokens, {int(row['passes']):,} passes, n = {int(row['n'])}"
        if row["n"] == row["n"]
        else "<br>estimated"
    )
    found = measure_words(row, MEASURE, ".2f")
    return f"<b>{row['label']}</b> {PANELS[row['by']]}<br>{found} tokens per forward{counts}"
