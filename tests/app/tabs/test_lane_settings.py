"""The controls of the lanes, without a browser."""

import asyncio
from typing import Any

import gradio as gr
import pytest

from app.compare.lane_choice import OWN, PRESETS, LaneChoice
from app.models.pairs import Pair
from app.tabs.lanes import LaneControls, LaneRow, build_count, held

NAMES = ["ar", "mars", "other"]
PAIR = Pair(ar="ar", mars="mars")
OWN_THRESHOLD = LaneChoice(checkpoint="other", follows=False, threshold=0.4, score="entropy", temperature=0.5, seed=3)
CHOICES = {
    **{name: make("ar", "mars") for name, make in PRESETS.items()},
    "own": OWN_THRESHOLD,
    "one": LaneChoice(checkpoint="mars", follows=False, threshold=None, block_size=4),
    "drafted": LaneChoice(checkpoint="mars", decoder="speculative", draft="ar", draft_tokens=6),
    "exact": LaneChoice(checkpoint="mars", decoder="self_speculative", layout="linear", extra_proposal=True),
}


async def _row() -> LaneRow:
    with gr.Blocks():
        return LaneRow(build_count(), NAMES, PAIR)


@pytest.fixture(scope="module")
def row() -> LaneRow:
    return asyncio.run(_row())  # outside of an event loop, Gradio makes some of its own and leaves them open


@pytest.fixture
def lane(row: LaneRow) -> LaneControls:
    return row.lanes[1]


def seen(lane: LaneControls, choice: LaneChoice) -> set[str]:
    updates = lane.updates({}, held(choice, PAIR))
    return {name for name, update in zip(lane.named, updates, strict=True) if update["visible"] is True}


def given(lane: LaneControls, choice: LaneChoice, **changes: Any) -> list[Any]:
    values = held(choice, PAIR) | changes
    return [values[name] for name in lane.named]


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_survives_the_controls(lane: LaneControls, name: str) -> None:
    assert lane.read(*given(lane, CHOICES[name])) == CHOICES[name].relevant()


def test_the_lanes_begin_as_the_presets(row: LaneRow) -> None:
    held = [part.value for part in row.inputs]
    presets = [make("ar", "mars").relevant() for make in PRESETS.values()]
    assert row.read(*held) == presets
    assert row.read(2, *held[1:]) == presets[:2]
    assert [part.label for part in (lane.named["preset"] for lane in row.lanes)] == ["Preset"] * 3


@pytest.mark.parametrize(
    ("name", "shown", "hidden"),
    [
        ("AR", {"temperature"}, {"mode", "threshold", "score", "block_size", "draft", "seed", "layout"}),
        ("MARS", {"mode", "score", "block_size", "extra_proposal"}, {"threshold", "layout", "draft_tokens"}),
        ("MARS exact", {"block_size", "layout"}, {"mode", "threshold", "score", "cache_block_size"}),
        ("own", {"threshold", "mode", "seed", "top_p"}, {"layout"}),
        ("one", {"mode"}, {"threshold", "score"}),
        ("drafted", {"draft", "draft_tokens"}, {"layout", "cache_block_size"}),
    ],
)
def test_only_what_acts_is_seen(lane: LaneControls, name: str, shown: set[str], hidden: set[str]) -> None:
    found = seen(lane, CHOICES[name])
    assert {"preset", "checkpoint", "decoder"} | shown <= found
    assert not hidden & found


def test_another_score_gets_its_own_threshold(lane: LaneControls) -> None:
    updates = dict(zip(lane.named, lane.changed(PAIR, *given(lane, CHOICES["MARS"], score="entropy")), strict=True))
    assert updates["mode"]["value"] == "own"
    assert updates["threshold"]["value"] == 0.3
    assert updates["threshold"]["visible"] is True


@pytest.mark.parametrize(("decoder", "preset"), [("sliding_window", {}), ("jacobi", {"value": OWN})])
def test_leaving_a_list_keeps_the_preset(lane: LaneControls, decoder: str, preset: dict[str, str]) -> None:
    found = lane.changed(PAIR, *given(lane, CHOICES["MARS"], decoder=decoder))[0]
    assert preset.items() <= found.items()
    assert ("value" in found) == bool(preset)


def test_choosing_a_preset_sets_every_control(lane: LaneControls) -> None:
    for name, make in PRESETS.items():
        values = [update["value"] for update in lane.preset_updates(name, PAIR)]
        assert lane.read(*values) == make("ar", "mars").relevant()
    assert lane.preset_updates(OWN, PAIR) == [gr.skip()] * len(lane.components)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mode": "own", "threshold": None}, "lane B: give its own τ a value"),
        ({"mode": "own", "threshold": 7}, "lane B: threshold must be between 0 and 1"),
        ({"block_size": 0}, "lane B: block_size must be between 1 and 64, got 0"),
        ({"temperature": None}, "lane B: temperature must be a number"),
        ({"extra_proposal": "x"}, "lane B: extra_proposal must be true or false"),
    ],
)
def test_what_cannot_be_is_refused_by_name(lane: LaneControls, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        lane.read(*given(lane, CHOICES["MARS"], **changes))


@pytest.mark.parametrize("count", [1, 4, None, "2", [2]])
def test_there_are_two_or_three_lanes(row: LaneRow, count: object) -> None:
    with pytest.raises(ValueError, match="The number of lanes must be from 2 to 3"):
        row.read(count, *(part.value for part in row.inputs[1:]))
