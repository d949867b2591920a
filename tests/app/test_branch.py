"""Another start of the answer, from which all lanes go on, and the sweep of τ, in a real Chromium."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.driving import choose, finish, run

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser
LANES = "abc"


def given(tab: Page) -> list[str]:
    """What each lane was given to start with."""
    return tab.locator(".lens-lane .lens-given").all_text_contents()


def branch_by_text(tab: Page, place: int, text: str) -> str:
    """Write something else in lane A instead of a token; returns what all lanes are to start with."""
    tokens = tab.locator("[data-lane=a] .lens-token")
    start = "".join(tokens.all_text_contents()[:place]) + text
    tokens.nth(place).click()
    tab.fill(".lens-card-own", text)
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".lens-lane .lens-given")
    finish(tab)
    return start


STOP_AT_ONCE = """() => {
    const [stop, view, close] = ['#stop', '.lens-sweep', '.lens-sweep button'].map((at) => document.querySelector(at));
    const press = () => stop.disabled || (close.click(), stop.click());
    const run = () => [undefined, 'done'].includes(view.dataset.state) && document.querySelector('#sweep-run').click();
    const look = (at) => view.dataset.state === 'stopped' || (at % 50 || run(), press(), setTimeout(look, 100, at + 1));
    look(0); // a click that a busy page lost comes again after five seconds
}"""


@pytest.fixture(scope="module")
def bench(served: Any, visit_once: Visit) -> Page:
    """A page for tests that leave it without a start of the answer."""
    return visit_once(served.url)


def forget_the_start(tab: Page, example: int) -> None:
    """By another prompt than that of the page."""
    tab.locator(".lens-examples button").nth(example).click()
    tab.wait_for_function("document.querySelector('#answer-start textarea').value === ''")


def test_all_lanes_go_on_from_another_text(served: Any, bench: Page, new_tab: Callable[[str], Page]) -> None:
    tab = bench
    run(tab)
    assert given(tab) == []
    start = branch_by_text(tab, 5, " <b>Paris</b>: 3")
    assert given(tab) == [start] * 3  # as text, whatever it holds
    assert tab.input_value("#answer-start textarea") == start
    assert all(tab.locator(f"[data-lane={lane}] .lens-pass .lens-given").count() == 0 for lane in LANES)
    written = served.last_run()[0].text
    assert not written.startswith(start)
    assert tab.locator("[data-lane=a] .lens-text").text_content() == start + written
    with_it, without = (json.loads(line)[0]["records"][0] for line in served.results.read_text().splitlines()[:-3:-1])
    assert json.loads(with_it)["query_tokens"] > json.loads(without)["query_tokens"]  # the prompt is longer

    tab.click(".lens-step-through")
    tab.wait_for_selector(".step-column")
    assert tab.locator(".step-passage .lens-given").all_text_contents() == [start]
    tab.click("#tab-compare-button")
    tab.wait_for_function("start => new URLSearchParams(location.search).get('start') === start", arg=start)
    other = new_tab(tab.url)
    other.goto(tab.url)
    other.wait_for_selector("html.lens-begun")
    assert other.input_value("#answer-start textarea") == start

    forget_the_start(tab, 1)
    assert tab.locator("#answer-start").is_hidden()
    tab.locator("[data-lane=a] .lens-token").first.click()
    assert tab.locator(".lens-card:visible").count() == 1
    assert tab.locator(".lens-card-own").count() == 0  # the answer to another prompt
    run(tab)
    assert given(tab) == []


def test_a_likely_token_branches_by_keys(bench: Page) -> None:
    tab = bench
    run(tab)
    tokens = tab.locator("[data-lane=b] .lens-token")
    before = tokens.all_text_contents()[:2]
    tokens.nth(2).focus()
    back = "new KeyboardEvent('keydown', { key: 'ArrowLeft', altKey: true, bubbles: true, cancelable: true })"
    assert tab.evaluate(f"document.activeElement.dispatchEvent({back})"), "it is the browser's"
    tab.keyboard.press("b")
    other = tab.evaluate("document.activeElement.textContent")
    assert tab.evaluate("document.activeElement.className") == "lens-alternative"
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".lens-lane .lens-given")
    finish(tab)
    assert given(tab) == ["".join(before) + other.replace("·", " ")] * 3
    forget_the_start(tab, 0)


def test_a_sweep_is_one_click(bench: Page) -> None:
    tab = bench
    assert tab.locator(".lens-sweep").is_hidden()
    usual = tab.input_value("#limit input")
    tab.fill("#limit input", "3")
    tab.click("#sweep-run")
    tab.wait_for_selector(".lens-sweep[data-state=failed]")
    assert tab.inner_text(".lens-sweep-status") == "The length limit must be a whole number between 16 and 512."
    tab.fill("#limit input", usual)
    look = "stop => { stop.disabled = false; return [getComputedStyle(stop).visibility, stop.disabled = true] }"
    assert tab.locator("#stop").evaluate(look) == ["visible", True]  # also where an earlier run can be followed up
    tab.click("#sweep-run")
    tab.wait_for_selector(".lens-sweep[data-state=done]")
    tab.wait_for_selector("#run:enabled")
    rows = [row.split("\t") for row in tab.locator(".lens-sweep tbody tr:has(th)").all_inner_texts()]
    assert [row[0] for row in rows] == ["AR", "0.99", "0.95", "0.90", "0.70", "0.50"]
    assert rows[0][1] == "1.00"
    assert (rows[0][-1], rows[-1][-1][-1]) == ("–", "×")
    tab.locator(".lens-sweep summary").last.click()
    assert tab.locator(".lens-sweep .lens-pre").last.inner_text().startswith("Let us think.")
    tab.set_viewport_size({"width": 390, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.click(".lens-sweep [aria-label='Close the sweep']")
    assert tab.evaluate("document.activeElement.id") == "sweep-run"
    assert tab.locator(".lens-sweep").is_hidden()


def test_stop_ends_a_sweep(bench: Page) -> None:
    tab = bench
    tab.set_viewport_size({"width": 1280, "height": 800})
    for lane in "ab":  # both, so that there is something left to stop on a busy machine
        choose(tab, f"lane-{lane}-checkpoint", "slow")
    tab.wait_for_selector("#sweep-run:enabled")
    tab.evaluate(STOP_AT_ONCE)  # by the page itself: a busy machine shows others the button after the sweep
    tab.wait_for_selector(".lens-sweep[data-state=stopped]", state="attached")
    assert tab.locator(".lens-sweep").is_hidden(), "it was closed before"
    tab.wait_for_selector("#run:enabled")
    assert tab.locator(".lens-sweep tbody tr:has(th)").count() < 6
