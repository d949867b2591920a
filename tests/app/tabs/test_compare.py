"""The tab Compare without a browser: no change of a lane is lost."""

import asyncio
from collections.abc import Callable
from typing import Any

import gradio as gr

from app.models import pairs
from app.tabs.compare import Tab


async def laid_out(runner: Any) -> tuple[Tab, list[dict[str, Any]]]:
    """The tab, and Gradio's description of its events."""
    with gr.Blocks() as page:
        tab = Tab(runner, [pairs.given("ar", "mars")])
        tab.connect()
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
