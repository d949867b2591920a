"""What a stranger sees first, in a real Chromium: the text, where it stands, and that nothing moves it."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser

SEEN = "[...document.querySelectorAll('.lens-lane')].filter(each => each.checkVisibility())"
FIRST_TOKENS = f"{SEEN}.map(each => each.querySelector('.lens-token').getBoundingClientRect().top)"
LINES = f"""() => {SEEN}.map(each => {{
    const text = each.querySelector('.lens-text');
    const board = document.querySelector('.lens-board').getBoundingClientRect().top;
    const top = each.querySelector('.lens-token').getBoundingClientRect().top;
    return Math.floor((board - top) / parseFloat(getComputedStyle(text).lineHeight));
}})"""
DRAWN = f"{SEEN}.every(each => each.querySelector('.lens-token'))"
PLACES = f"""() => [scrollY, ...{SEEN}.map(each => [
    ...[each, each.querySelector('.lens-text'), ...each.querySelectorAll('.lens-token')].map(node => {{
        const {{ top, left, width }} = node.getBoundingClientRect();
        return [top, left, width];
    }})])]"""
SHORT = "?limit=64"  # tokens, at reading pace
SIZE = "node => parseFloat(getComputedStyle(node).fontSize)"


def begin_high(tab: Page) -> None:
    assert len(tab.evaluate(FIRST_TOKENS)) == 3
    assert max(tab.evaluate(FIRST_TOKENS)) <= 260
    assert min(tab.evaluate(LINES)) >= 10


def test_texts_begin_high_and_a_run_moves_nothing(two_pairs: Any, visit: Visit) -> None:
    two_pairs.ready.touch()
    tab = visit(two_pairs.url + SHORT, settings=False)
    tab.wait_for_selector(".lens-recorded .lens-token", state="attached")
    assert tab.inner_text(".lens-caption-said") == "Each colour band came out of one forward pass"
    assert tab.inner_text(".lens-parting").startswith("Recorded run of SmolLM2 135M")
    begin_high(tab)
    tab.click("#run")
    tab.wait_for_selector("[data-lane=a] .lens-token")
    assert tab.locator(".lens-recorded").count() == 0
    tab.evaluate(f"""() => {{
        const places = {PLACES};
        const stage = document.querySelector('.lens-stage');
        let last = null;
        new MutationObserver(() => {{
            if (stage.dataset.state === 'done') window.ended = [last, places()];
        }}).observe(stage, {{ attributeFilter: ['data-state'] }});
        const texts = new MutationObserver(() => {{ last = places(); }});
        document.querySelectorAll('.lens-text').forEach(text => texts.observe(text, {{ childList: true }}));
    }}""")
    tab.wait_for_selector("#stage [data-state=done]")
    tab.wait_for_selector("#run:enabled")
    tab.wait_for_timeout(400)  # until the charts are drawn
    before, at_end = tab.evaluate("window.ended")
    assert at_end == tab.evaluate(PLACES)
    scrolled, *lanes = at_end
    known = [lane[: len(places)] for lane, places in zip(lanes, before[1:], strict=True)]
    assert [scrolled, *known] == before  # the last picture may bring the last tokens
    begin_high(tab)
    assert tab.evaluate("scrollY") == 0


def shows_text_at_once(tab: Page, lanes: int, highest: float, width: int) -> None:
    tab.wait_for_selector(".lens-recorded .lens-token", state="attached")
    tops = tab.evaluate(FIRST_TOKENS)
    assert len(tops) == lanes
    assert max(tops) <= highest
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_shows_text_at_once_too(two_pairs: Any, visit: Visit) -> None:
    two_pairs.ready.touch()
    tab = visit(two_pairs.url, 390, 844, settings=False)
    shows_text_at_once(tab, 1, 530, 390)
    tab.evaluate("scrollTo(0, 400)")
    slider, picks = (tab.locator(each).bounding_box() for each in (".lens-threshold", ".lens-pick"))
    assert slider is not None
    assert picks is not None
    assert (slider["y"], slider["y"] + slider["height"]) == pytest.approx((0, picks["y"]), abs=8)


def test_a_projector_shows_three_lanes_in_large_type(two_pairs: Any, visit: Visit) -> None:
    two_pairs.ready.touch()
    tab = visit(two_pairs.url, 1440, 900, settings=False)
    shows_text_at_once(tab, 3, 260, 1440)
    lanes = "document.querySelector('#lanes input:checked').value === '{}'"
    tab.wait_for_function(lanes.format(3))
    tab.set_viewport_size({"width": 1024, "height": 768})
    tab.click(".lens-projecting")
    tab.wait_for_function(DRAWN)
    assert len(tab.evaluate(FIRST_TOKENS)) == 3
    assert max(tab.evaluate(FIRST_TOKENS)) <= 340  # below two rows of examples: a mouse could not scroll one
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1024
    for selector in (".lens-caption-said", ".lens-status", ".lens-recorded h2"):
        assert tab.locator(selector).first.evaluate(SIZE) >= 24, selector
    assert tab.locator(".lens-recorded .lens-text").first.evaluate(SIZE) >= 20, "three lanes of 22 characters"
    tab.set_viewport_size({"width": 1280, "height": 800})
    assert tab.locator(".lens-recorded .lens-text").first.evaluate(SIZE) >= 24
    tab.click(".lens-projecting")
    tab.wait_for_function(lanes.format(3))
    tab.wait_for_function(DRAWN)
    assert len(tab.evaluate(FIRST_TOKENS)) == 3
    # The panel of settings is remembered.
    assert not tab.is_visible("#pace")
    tab.click(".lens-settings-button")
    assert tab.is_visible("#pace")
    assert tab.get_attribute(".lens-settings-button", "aria-expanded") == "true"
    tab.reload()
    tab.wait_for_selector("html.lens-begun", state="attached")  # what the address says would undo what is typed before
    tab.wait_for_selector("#pace", state="visible")
    tab.click(".lens-settings-button")
    assert not tab.is_visible("#pace")
