"""The decoder of docs/extending.md in the app: choices, reasons, API, and the page in a browser."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gradio as gr
import pytest
from playwright.sync_api import Page

from app import api
from app.compare.generation import GenerateRequest, generate
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import requested
from app.models.pairs import given
from app.tabs.lanes import LaneControls

TESTS = Path(__file__).parents[1]


@pytest.fixture
def choice(joint_window: ModuleType) -> LaneChoice:
    return LaneChoice(checkpoint="mars", decoder="joint_window")


async def _controls(choice: LaneChoice) -> LaneControls:
    with gr.Blocks():
        return LaneControls("b", choice, ["ar", "mars"], given("ar", "mars"))


def test_the_page_offers_it_with_its_settings(choice: LaneChoice) -> None:
    lane = asyncio.run(_controls(choice))  # outside of an event loop, Gradio makes some of its own and leaves them open
    offered = lane.named["decoder"].choices  # type: ignore[attr-defined]
    assert ("MARS, joint threshold", "joint_window") in offered
    seen = {name for name, component in lane.named.items() if component.visible is True}
    always = {"preset", "checkpoint", "decoder", "mode", "temperature"}
    assert seen == always | {"score", "block_size", "extra_proposal"}
    [request] = requested([choice])
    assert (request.title, request.card()["family"]) == ("MARS joint", "masks")


def test_the_api_names_it_and_answers_with_it(choice: LaneChoice, make_runner: Callable[..., Any]) -> None:
    assert "joint_window" in api._named("One of DECODERS.")
    given = {"prompt": "?", "checkpoint": "mars", "decoder": "joint_window", "threshold": 0.8, "block_size": 4}
    runner = make_runner()
    wanted = GenerateRequest.of(runner.limits, given | {"max_new_tokens": 16, "seed": 0, "draft": None}, None)
    *_, whole = generate(runner, "a session", wanted)
    assert (whole["decoder"], whole["counts"]["tokens"]) == ("joint_window", 16)
    assert whole["counts"]["passes"] < 16


@pytest.fixture
def extended(start_page: Callable[..., str], tmp_path: Path) -> str:
    """The address of a page whose table has the decoder."""
    return start_page(tmp_path, TESTS / "extending.py", "app/scripted_pair.py", tmp_path / "runs.jsonl")


@pytest.mark.browser
def test_a_browser_runs_it_and_steps_through(extended: str, visit: Callable[..., Page]) -> None:
    tab = visit(extended, 1100)
    tab.click("#lane-b-decoder input")
    tab.click("[role=option]:has-text('MARS, joint threshold')")
    tab.wait_for_selector("[data-lane=b].lens-lane-masks .lens-lane-name:has-text('MARS joint')")
    tab.click("#run button, #run")
    tab.wait_for_selector("[data-state=done]", state="attached")
    tab.click(".lens-step-through")
    tab.click(".step-lane.lens-lane-masks[data-lane=b]")
    tab.wait_for_selector(".step-panel.lens-lane-masks")
    assert tab.locator(".step-lane[data-lane=b] .lens-note").inner_text() == "mars · MARS, joint threshold"
    facts = tab.evaluate("JSON.parse(document.getElementById('lens-decoders').textContent).decoders.joint_window")
    assert (facts["title"], facts["family"]) == ("MARS, joint threshold", "masks")
    # One script, whose address names this table: under another, the browser may keep that of an earlier page.
    loaded = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('lens.js')).length"
    assert tab.evaluate(loaded) == 1
