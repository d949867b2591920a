"""The tab Compare without a browser: no change of a lane is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app.models import pairs
from app.tabs.compare import Tab


async def laid_out(runner: Any) -> tuple[Tab, list[dict[str, Any]]]:
    """The tab, and Gradio's description of its events."""
    with gr.Blocks() as page:
        tab = Tab(runner, [pairs.given("ar", "mars")])
        tab.connect()
    events: list[dict[str, Any]] = page.get_config_file()["dependencies"]
    return tab, events


@pytest.fixture
def tab(make_runner: Callable[..., Any]) -> Tab:
    return asyncio.run(laid_out(make_runner()))[0]


def test_no_change_is_dropped_during_another(make_runner: Callable[..., Any]) -> None:
    tab, events = asyncio.run(laid_out(make_runner()))
    changed = {component._id for component in [*tab.row.inputs, tab.threshold, tab.pace, tab.prompt]}
    modes = {
        event["trigger_mode"]
        for event in events
        if event["backend_fn"] and any(on in changed and kind != "submit" for on, kind in event["targets"])
    }
    assert modes == {"always_last", "multiple"}
    assert {event["trigger_mode"] for event in events if event["api_name"].startswith("_introduce")} == {"multiple"}


def test_a_change_replaces_one_that_still_loads(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tab.runner, "introduce", lambda lanes, threshold: iter([f"{threshold} loads", f"{threshold}"]))
    values = [component.value for component in tab.row.inputs]
    me, other = (SimpleNamespace(session_hash=name) for name in ("me", "other"))

    def change(page: Any, threshold: float) -> Any:
        return tab._introduce(page, threshold, *values)

    first, stranger = change(me, 0.9), change(other, 0.7)
    assert (next(first), next(stranger)) == ("0.9 loads", "0.7 loads")
    assert list(change(me, 0.8)) == ["0.8 loads", "0.8"]
    assert list(stranger) == ["0.7"]
    assert list(change(me, 0.6)) == ["0.6 loads", "0.6"]
    newest = change(me, 0.5)
    assert next(newest) == "0.5 loads"
    assert list(first) == [gr.skip()]
    assert list(newest) == ["0.5"]
    assert not tab._introducing
