"""The tab Compare without a browser: no change of a lane is lost."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app.compare.board import Plan
from app.models import pairs
from app.tabs.compare import Tab, stop_words, threshold_of, threshold_words
from app.tabs.parts import slider_value
from mars.checkpoint.calibration import Scores, scores_in, scores_of
from mars.schema import adapter

ON = "On problems like MARS's training, masks fixed: "


async def laid_out(runner: Any) -> tuple[Tab, list[dict[str, Any]]]:
    """The tab, and Gradio's description of its events."""
    with gr.Blocks() as page:
        tab = Tab(runner, [pairs.Pair(ar="ar", mars="mars")])
        tab.connect(gr.HTML())
    events: list[dict[str, Any]] = page.get_config_file()["dependencies"]
    return tab, events


def test_no_change_is_dropped_during_another(make_runner: Callable[..., Any]) -> None:
    tab, events = asyncio.run(laid_out(make_runner()))
    changed = {component._id for component in [*tab.row.inputs, tab.threshold, tab.pace, tab.prompt]}
    modes = {
        event["trigger_mode"]
        for event in events
        if event["backend_fn"] and any(on in changed and kind != "submit" for on, kind in event["targets"])
    }
    assert modes == {"always_last"}
    assert {tab.pair(wrong).key for wrong in (None, "<b>", 3, ["tiny"])} == {"given"}, "the first"


MEASURED = {"n": 1200, "tokens_per_forward": 2.8}
STOPS = [
    MEASURED | {"threshold": None, "points": [-1.3, -3.2, 0.5], "speed": [0.97, 0.89, 1.06]},
    MEASURED | {"threshold": 0.99, "points": [0.25, -1.6, 1.1], "speed": [2.13, 1.96, 2.31]},
    MEASURED | {"threshold": 0.8, "points": [-1.7, -3.2, 0.2], "speed": None},
]


def test_the_sliders_end_is_one_token() -> None:
    assert threshold_of(1.0) is None
    assert threshold_of(0.7) == 0.7
    assert (threshold_words(1), threshold_words(0.7)) == ("one token per pass", "τ = 0.70")


@pytest.mark.parametrize("value", [0.49, 1.01, float("nan"), None, "0.9", True])
def test_the_slider_has_no_other_value(value: object) -> None:
    with pytest.raises(ValueError, match=r"The threshold must be a number from 0.5 to 1"):
        threshold_of(value)


def test_ten_thousand_moves_leave_nothing_behind() -> None:
    threshold_of(0.6), Plan(first=1)
    known = adapter.cache_info().currsize
    for number in range(10_000):
        threshold_of(0.5 + number / 20_000)
    Plan(first=2)
    assert adapter.cache_info().currsize == known


def test_a_pair_begins_where_its_record_says(tmp_path: Path) -> None:
    start = scores_of({"default": {"threshold": 0.995, "score": "probability", "stops": STOPS}}).default
    assert slider_value(start) == 0.99, "one token a pass is no default"
    (tmp_path / "mars.json").write_text(json.dumps({"default": {"threshold": 0.8, "stops": STOPS}}))
    assert slider_value(scores_in(str(tmp_path)).default) == 0.8
    assert scores_in("org/none") == Scores()
    (tmp_path / "mars.json").write_text("{")
    assert slider_value(scores_in(str(tmp_path)).default) == 0.95


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.99, f"{ON}+0.2 points against AR [−1.6, +1.1] (n\u00a0=\u00a01,200), 2.1× AR's speed [2.0, 2.3]"),
        (0.8, f"{ON}−1.7 points against AR [−3.2, +0.2] (n\u00a0=\u00a01,200), 2.8 tokens a pass"),
        (0.9, "Accuracy and speed were measured at τ 0.80, 0.99."),
        (1.0, f"{ON[:32]}: −1.3 points against AR [−3.2, +0.5] (n\u00a0=\u00a01,200), 1.0× AR's speed [0.9, 1.1]"),
    ],
)
def test_a_stop_says_what_was_measured_there(value: float, words: str) -> None:
    assert stop_words(value, scores_of({"default": {"stops": STOPS}}).default) == words
    assert stop_words(value, scores_of({}).default) == ""
