from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from app.tradeoffs import drawing
from app.tradeoffs.catalogue import AXES, FIGURES, PER_SECOND
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.together import PER_FORWARD
from app.tradeoffs.view import View

RunOf = Callable[..., str]


def draw(run_cache: RunCache, figure: str = "frontier", against: str = PER_FORWARD, **asked: Any) -> dict[str, Any]:
    return drawing.draw(run_cache, View(figure=figure, against=against, **asked))


def ids(shown: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for trace in shown["figure"]["data"]:
        for each in trace.get("customdata", []):
            found.update([each] if isinstance(each, str) else each)
    return found - {""}


@pytest.mark.parametrize("figure", sorted(set(FIGURES) - {"ablation"}))
def test_every_figure_is_drawn_from_the_runs(run_cache: RunCache, figure: str) -> None:
    shown = draw(run_cache, figure)
    assert shown["empty"] == ""
    assert ids(shown)
    assert ids(shown) <= {entry["id"] for entry in run_cache.store().runs.entries}
    assert {row["id"] for row in shown["table"]["rows"]} >= ids(shown)


@pytest.mark.parametrize("against", AXES)
def test_the_axis_is_the_one_chosen(run_cache: RunCache, against: str) -> None:
    shown = draw(run_cache, against=against)
    titles = [
        axis["title"]["text"]
        for name, axis in shown["figure"]["layout"].items()
        if name.startswith("xaxis") and "title" in axis
    ]
    words = {
        "tokens_per_forward": "tokens per forward",
        "tokens_per_second": "output tokens/s",
    }
    assert set(titles) == {words[against]}


def test_a_figure_starts_with_ar_and_one_model_by_probability(run_cache: RunCache) -> None:
    shown = draw(run_cache)
    assert shown["usual"]
    assert shown["summary"] == "All 14 runs selected"  # though the first view draws a handful of them
    assert {run_cache.table().set_index("id").loc[run, "model"] for run in ids(shown)} == {"ar", "mars"}
    assert not {run_cache.table().set_index("id").loc[run, "settings.score"] for run in ids(shown)} - {"probability"}
    assert not draw(run_cache, chosen={})["usual"]


def test_a_filter_selects_what_is_drawn(run_cache: RunCache, run_of: RunOf) -> None:
    shown = draw(run_cache, chosen={"checkpoint": ("mars-b4",)})
    assert ids(shown) == {run_of("mars-b4", threshold=0.9)}
    assert shown["summary"] == "1 of 14 runs selected"


def test_one_family_is_measured_on_its_own(run_cache: RunCache) -> None:
    shown = draw(run_cache, task="logic")
    problems = {
        row["cells"][[column["label"] for column in shown["table"]["columns"]].index("n")][0]
        for row in shown["table"]["rows"]
    }
    assert problems == {"200"}
    assert shown["task"] == "logic"
    assert draw(run_cache, task="no such family")["task"] == "all families"


def test_the_operating_point_is_starred_where_it_lies(run_cache: RunCache, run_of: RunOf) -> None:
    shown = draw(run_cache, points=10.0)
    star = shown["figure"]["data"][-1]
    best = run_of("mars", threshold=0.7)
    (line,) = [trace for trace in shown["figure"]["data"] if best in trace.get("customdata", [])]
    place = list(line["customdata"]).index(best)
    assert (star["x"][0], star["y"][0]) == (line["x"][place], line["y"][place])
    assert star["marker"]["symbol"] == "star"


def test_a_panel_of_one_family_has_no_star_for_all_of_them(run_cache: RunCache) -> None:
    symbols = {trace["marker"].get("symbol") for trace in draw(run_cache, "families", points=20.0)["figure"]["data"]}
    assert "star" not in symbols
    shown = draw(run_cache, "families", points=20.0, task="logic")
    one = {trace["marker"].get("symbol") for trace in shown["figure"]["data"]}
    assert "star" in one


def test_published_numbers_come_as_a_layer_of_their_own(run_cache: RunCache) -> None:
    without, layered = draw(run_cache), draw(run_cache, published="GSM8K")
    assert "GSM8K" in without["layers"]
    assert without["layer"] == ""
    assert layered["layer"] == "GSM8K"
    more = ids(layered) - ids(without)
    assert more
    assert all(run.startswith("published.") for run in more)
    hollow = [trace for trace in layered["figure"]["data"] if more & set(trace.get("customdata", []))]
    assert all(trace["marker"]["symbol"].endswith("-open") for trace in hollow)


def test_the_layer_that_a_figure_lacks_is_its_first(run_cache: RunCache) -> None:
    assert draw(run_cache, "caching", published="GSM8K")["layer"] == drawing.ALL
    assert draw(run_cache, "reliability", published="GSM8K")["layer"] == ""
    assert draw(run_cache, against=PER_SECOND, published="GSM8K")["layers"] == []


def test_a_published_threshold_of_one_is_one_token_mode(run_cache: RunCache) -> None:
    shown = draw(run_cache, chosen={"checkpoint": ("ar",)}, published="GSM8K")
    hovers = [text for trace in shown["figure"]["data"] for text in trace.get("hovertext", []) if "published" in text]
    assert any("one-token mode" in text for text in hovers)
    assert not any("τ 1<" in text or "τ 1 " in text for text in hovers)


def test_a_running_lane_belongs_where_its_axis_is(run_cache: RunCache) -> None:
    assert draw(run_cache)["live"] == {"measure": PER_FORWARD, "axes": [""], "models": None}
    seconds = {"measure": PER_SECOND, "models": ["ar", "mars"]}
    assert draw(run_cache, against=PER_SECOND)["live"] == {**seconds, "axes": [""]}
    assert draw(run_cache, against=PER_SECOND, batch=4)["live"] == {**seconds, "axes": []}
    assert draw(run_cache, "families")["live"] == {"measure": PER_FORWARD, "axes": ["", "2"], "models": None}
    assert draw(run_cache, "acceptance")["live"] is None


def test_a_selection_without_a_mark_says_that_filters_hide_it(run_cache: RunCache) -> None:
    shown = draw(run_cache, "reliability", chosen={"decoder": ("autoregressive",)})
    assert shown["empty"] == "The selection has no run that this figure can show; others have. Widen the filters."


def test_a_figure_without_runs_names_the_sweep_that_makes_them(run_cache: RunCache, tmp_path: Path) -> None:
    empty = draw(RunCache(tmp_path), "reliability")["empty"]
    assert empty.startswith(
        "There are no runs yet. This makes runs that keep their mask proposals: python -m analysis sweep"
    )
    assert empty.endswith("calibration.toml")
    for figure in FIGURES:
        assert draw(RunCache(tmp_path), figure)["empty"].startswith("There are no runs yet.")


def test_a_few_marks_name_their_thresholds(run_cache: RunCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(shown: dict[str, Any]) -> dict[str, str]:
        traces = [trace for trace in shown["figure"]["data"] if trace.get("customdata") and "text" in trace]
        return {run: text for trace in traces for run, text in zip(trace["customdata"], trace["text"], strict=True)}

    found = named(draw(run_cache))
    table = run_cache.table().set_index("id")
    for run, text in found.items():
        threshold = table.loc[run, "settings.threshold"]
        usual = "one-token" if pd.isna(threshold) else f"τ {threshold:g}"
        assert text == ("" if table.loc[run, "decoder"] == "autoregressive" else usual)
    assert {"τ 0.95", "one-token"} <= set(found.values())
    monkeypatch.setattr(drawing, "_MOST_NAMED", 1)
    assert named(draw(run_cache)) == {}
