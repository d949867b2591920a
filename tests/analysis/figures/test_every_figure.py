"""What holds of every figure: marks with ids, either ground, a sentence where it is empty, and text that stays text."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis import figures

EVIL = "<i>&%{x}$y$"
ESCAPED = "&lt;i&gt;&amp;&#37;{x}&#36;y&#36;"

DRAWN: dict[str, Callable[[pd.DataFrame], go.Figure]] = {
    f"{name}/{against}": partial(figure.draw, against=against, **({"points": 10} if figure.budget else {}))
    for name, figure in figures.FIGURES.items()
    for against in ("tokens_per_forward", "tokens_per_second")
}
every_figure = pytest.mark.parametrize("name", DRAWN)


@pytest.fixture(scope="module")
def drawn(table: pd.DataFrame) -> dict[str, go.Figure]:
    """Every figure of the whole table."""
    return {name: draw(table) for name, draw in DRAWN.items()}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


@every_figure
def test_every_mark_carries_the_id_of_its_run(name: str, drawn: dict[str, go.Figure], table: pd.DataFrame) -> None:
    known, figure = set(table["id"]), drawn[name]
    assert figure.data
    for trace in figure.data:
        if trace.hoverinfo == "skip":
            continue
        assert len(trace.customdata) == len(trace.hovertext) == len(trace.x)
        assert set(trace.customdata) <= known


@every_figure
def test_only_the_template_says_the_ground(name: str, drawn: dict[str, go.Figure]) -> None:
    light = json.loads(drawn[name].to_json())
    template = light["layout"].pop("template")["layout"]
    assert template["paper_bgcolor"] == template["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert template["font"]["color"] not in set(strings(light))
    assert figures.template(dark=True).layout.font.color != template["font"]["color"]
    assert light["layout"]["uirevision"]
    assert light["layout"]["legend"]["orientation"] == "h"


@every_figure
def test_an_empty_selection_gives_a_sentence(name: str, table: pd.DataFrame) -> None:
    figure = DRAWN[name](table.iloc[:0])
    assert not figure.data
    assert len(figure.layout.annotations[0].text) > 20
    assert figure.layout.uirevision


@pytest.fixture(scope="module")
def evil(fabricate: Any) -> pd.DataFrame:
    """The table of a store whose names are markup."""
    model, ar = fabricate.model(EVIL), fabricate.model(f"{EVIL}ar", "sft", None, None)
    place = {"batch_size": 4, "group": EVIL}
    runs = [fabricate.run(ar), fabricate.run(ar, **place), fabricate.run(model, "self_speculative", gain=2.0)]
    runs += [fabricate.run(model, "sliding_window", threshold=0.9, score=score) for score in ("probability", "margin")]
    runs += [fabricate.run(model, "sliding_window", threshold=threshold) for threshold in (None, 0.95)]
    runs += [fabricate.run(model, decoder, threshold=0.95, **place) for decoder in ("sliding_window", "block_cached")]
    runs += [fabricate.run(model, EVIL, tasks=(EVIL,))]
    return figures.measure(fabricate.store([({**entry, "hardware": EVIL, "date": EVIL}, rows) for entry, rows in runs]))


@every_figure
def test_no_text_of_a_run_is_markup(name: str, evil: pd.DataFrame) -> None:
    written = json.loads(DRAWN[name](evil).to_json())
    shown = [*strings(written["layout"])]
    for trace in written["data"]:
        shown += strings({field: value for field, value in trace.items() if field not in ("legendgroup", "customdata")})
    assert any(ESCAPED in text for text in shown)
    assert not [text for text in shown if "<i>" in text or "%{x}" in text or "$y$" in text]
