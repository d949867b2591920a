"""The decoder of docs/extending.md in the app: choices, reasons and API."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import gradio as gr
import pytest

from app.api import GenerateRequest, generated
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import requested
from app.models.pairs import Pair
from app.tabs.lanes import LaneControls


@pytest.fixture
def choice(joint_window: ModuleType) -> LaneChoice:
    return LaneChoice(checkpoint="mars", decoder="joint_window")


async def _controls(choice: LaneChoice) -> LaneControls:
    with gr.Blocks():
        return LaneControls("b", choice, ["ar", "mars"], Pair(ar="ar", mars="mars"))


def test_the_page_offers_it_with_its_settings(choice: LaneChoice) -> None:
    lane = asyncio.run(_controls(choice))  # outside of an event loop, Gradio makes some of its own and leaves them open
    offered = lane.named["decoder"].choices  # type: ignore[attr-defined]
    assert ("MARS, joint threshold", "joint_window") in offered
    seen = {name for name, component in lane.named.items() if component.visible is True}
    always = {"preset", "checkpoint", "decoder", "mode", "temperature"}
    assert seen == always | {"score", "block_size", "extra_proposal"}
    [request] = requested([choice])
    assert (request.title, request.card()["family"]) == ("MARS joint", "masks")


def test_the_api_answers_with_it(choice: LaneChoice, make_runner: Callable[..., Any]) -> None:
    given = {"prompt": "?", "checkpoint": "mars", "decoder": "joint_window", "threshold": 0.8, "block_size": 4}
    runner = make_runner()
    wanted = GenerateRequest.of(runner.limits, given | {"max_new_tokens": 16, "seed": 0, "draft": None}, None)
    *_, whole = generated(runner, "a session", wanted)
    assert (whole["decoder"], whole["counts"]["tokens"]) == ("joint_window", 16)
    assert whole["counts"]["passes"] < 16
