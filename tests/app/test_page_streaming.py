"""How a run gets into the page: by the page's own asking, or where that fails by Gradio; and nothing without a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser

COUNT_FRAMES = """
window.frames_asked = 0;
const frame = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (draw) => { window.frames_asked++; return frame(draw); };
"""
Open = Callable[["BrowserContext"], "Page"]


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A wide window of its own."""
    made = chromium.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def open_page(served: Any) -> Open:
    """The page in a new tab of a context, ready."""

    def open_page(context: BrowserContext) -> Page:
        tab = context.new_page()
        tab.goto(served.url)
        tab.wait_for_selector("[data-state=idle]")
        tab.wait_for_function("document.querySelector('#prompt textarea').value.length > 0")
        if tab.get_attribute(".lens-settings-button", "aria-expanded") == "false":
            tab.click(".lens-settings-button")
        return tab

    return open_page


def run(tab: Page, pace: str) -> None:
    tab.locator("#pace label", has_text=pace).click()
    shown = tab.locator(".lens-stage").get_attribute("data-run")
    tab.click("#run")
    tab.wait_for_selector(f".lens-stage[data-state=done]:not([data-run='{shown}'])")
    tab.wait_for_selector("#run:enabled")


def test_an_idle_page_comes_to_rest(context: BrowserContext, open_page: Open) -> None:
    context.add_init_script(COUNT_FRAMES)
    tab = open_page(context)
    for _ in range(20):  # Gradio's transitions take a while
        before = tab.evaluate("window.frames_asked")
        tab.wait_for_timeout(1000)
        if tab.evaluate("window.frames_asked") - before < 10:
            return
    pytest.fail("the page is drawn again and again")


def test_the_page_asks_for_what_is_new(context: BrowserContext, open_page: Open) -> None:
    tab = open_page(context)
    asked: list[Any] = []
    tab.on("response", lambda answer: asked.append(answer) if "/pictures/" in answer.url else None)
    run(tab, "Readable")
    answers = [answer for answer in asked if answer.status == 200]
    assert sum('"kind":"pass"' in answer.text() for answer in answers) > 5
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}


@pytest.mark.parametrize("pace", ["Readable", "Real time"])
@pytest.mark.parametrize("lets_through", [True, False])
def test_by_either_way_every_token_is_there_once(
    context: BrowserContext, open_page: Open, served: Any, pace: str, lets_through: bool
) -> None:
    if not lets_through:
        context.route("**/pictures/**", lambda route: route.abort())
    tab = open_page(context)
    run(tab, pace)
    for lane in served.last_run():
        tokens = sum(record.rows[0].accepted for record in lane.records)
        assert tab.locator(f"[data-lane={lane.key}] .lens-token").count() == tokens
