"""The live view under load in a real Chromium: it draws what the run tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from app.compare import stream
from app.server.routes import event
from app.tradeoffs.visitors import LaneState, Load

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
pytestmark = pytest.mark.browser

STATE = ".visitors-state"
POINTS = "document.querySelector('.visitors-line-mars')?.points.numberOfItems ?? 0"


def start(tab: Page) -> None:
    tab.click("#tab-tradeoffs-button")
    tab.click(".visitors button:text-is('Start')")


def test_lanes_are_drawn_while_they_answer_and_stop_ends_it(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    start(tab)
    tab.wait_for_selector(f"{STATE}:text-is('Both lanes answer the same visitors, each on its own clock.')")
    tab.wait_for_function(f"({POINTS}) > 2")
    tab.fill("#visitors-rate", "4")
    assert tab.inner_text(".visitors-reading") == "4.0"
    for lane in ("ar", "mars"):
        tab.wait_for_function(f"/[1-9][0-9]* answered/.test(document.querySelector('.visitors-{lane}').innerText)")
    tab.click(".visitors button:text-is('Stop')")
    tab.wait_for_selector(f"{STATE}:text-is('Stopped.')")
    start(tab)
    tab.wait_for_selector(f"{STATE}:has-text('Both lanes answer')")
    tab.click(".visitors button:text-is('Stop')")
    tab.wait_for_selector(f"{STATE}:text-is('Stopped.')")


def test_pictures_that_come_together_are_all_drawn(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    lines = [*map(picture, range(1, 5)), stream.line(stream.state("done", "Finished."))]
    body = event(len(lines), "".join(lines))
    tab.context.route("**/events", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    start(tab)
    tab.wait_for_selector(f"{STATE}:text-is('Finished.')")
    assert tab.evaluate(POINTS) == 4
    assert "4 answered" in tab.inner_text(".visitors-mars")
    assert tab.is_visible(".visitors button:text-is('Start')")


def picture(number: int) -> str:
    """A line with two lanes that have answered so many visitors in so many seconds."""
    lane: LaneState = {
        "clock": float(number),
        "waiting": 0,
        "writing": 1,
        "answered": number,
        "refused": 0,
        "speed": 9.5,
        "first": 0.1,
        "layouts": "",
    }
    return stream.line(Load(kind="load", lanes={"ar": lane, "mars": lane}))
