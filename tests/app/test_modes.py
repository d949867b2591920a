"""Light, dark, projector, and no motion, in a real Chromium."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.driving import begin, finish, set_pace

Visit = Callable[..., Page]
OpenTab = Callable[[Page, str], None]
pytestmark = pytest.mark.browser

SIZES = """() => [...document.querySelectorAll('.gradio-container *')].flatMap(node => {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    const size = parseFloat(getComputedStyle(node).fontSize);
    const fixed = node.closest('.lens-chart-names'); // as high as the rows of the chart
    return own && node.checkVisibility() && !fixed ? [[`${node.tagName}.${node.className}`, size]] : [];
})"""
MOVING = """() => document.getAnimations().filter(animation => {
    const { duration, iterations } = animation.effect.getComputedTiming();
    return animation.playState === 'running' && duration * iterations > 1;
}).map(animation => animation.animationName ?? animation.transitionProperty)"""


def tabs(tab: Page) -> list[str]:
    return tab.locator("#tabs [role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tabId)")


def looks(tab: Page) -> tuple[bool, bool]:
    """Whether it is dark, and whether it is for a projector."""
    return tuple(tab.evaluate("[document.body.matches('.dark'), document.documentElement.matches('.lens-projector')]"))


def test_modes_are_remembered_else_the_system_decides(site: Any, visit: Visit) -> None:
    tab = visit(site.url)
    assert looks(tab) == (False, False)
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.click(".lens-theme")
    assert looks(tab) == (True, False)
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != paper
    tab.click(".lens-projecting")
    assert looks(tab) == (True, True)
    assert tab.get_attribute(".lens-projecting", "aria-pressed") == "true"
    tab.reload()
    tab.wait_for_selector("[data-state=idle]")
    assert looks(tab) == (True, True)
    assert tab.inner_text(".lens-theme") == "Light"
    tab.click(".lens-theme")
    assert looks(tab) == (False, True)
    tab.click(".lens-projecting")
    assert looks(tab) == (False, False)
    nonsense = '{"dark": "<b>", "projector": 1, "__proto__": {"projector": true}}'
    tab.evaluate("text => localStorage.setItem('mars-lens:looks', text)", nonsense)
    tab.reload()
    tab.wait_for_selector("[data-state=idle]")
    assert looks(tab) == (False, False)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_selector("body.dark")
    assert tab.inner_text(".lens-theme") == "Light"
    tab.click(".lens-theme")
    tab.emulate_media(color_scheme="light")
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_timeout(200)
    assert looks(tab) == (False, False)


@pytest.fixture(scope="module")
def plain(site: Any, visit_once: Visit) -> Page:
    """A page for tests that change its size or its run."""
    return visit_once(site.url)


def test_a_projector_enlarges_type_everywhere(plain: Page, open_tab: OpenTab) -> None:
    tab = plain
    for name in tabs(tab):
        open_tab(tab, name)
        before = tab.evaluate(SIZES)
        tab.keyboard.press("p")
        after = tab.evaluate(SIZES)
        tab.keyboard.press("p")
        usual: dict[str, float] = {}  # the smallest of each kind; a projector has no room for some of it
        for what, size in before:
            usual[what] = min(size, usual.get(what, size))
        assert len(after) > len(before) / 2
        small = {what: (usual[what], new) for what, new in after if new < 1.19 * usual.get(what, 0)}
        assert small == {}


def test_no_tab_scrolls_sideways_on_a_phone(plain: Page, open_tab: OpenTab) -> None:
    tab = plain
    tab.set_viewport_size({"width": 390, "height": 844})
    for number, name in enumerate(2 * tabs(tab)):
        if number == len(tabs(tab)):
            tab.click(".lens-projecting")
        open_tab(tab, name)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, name
        beyond = tab.locator("#tabs [role=tab], .lens-tools button").evaluate_all(
            "nodes => nodes.filter(node => node.getBoundingClientRect().right > 390).map(node => node.textContent)"
        )
        assert beyond == []


def test_nothing_moves_where_motion_is_unwanted(plain: Page) -> None:
    tab = plain
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.click("#tab-compare-button")
    moving: dict[str, set[str]] = {}
    for wish in ("reduce", "no-preference"):
        tab.emulate_media(reduced_motion=wish)
        begin(tab, "Readable")
        tab.wait_for_selector(".lens-pass >> nth=2")
        moving[wish] = set()
        if wish == "no-preference":  # asked at every frame, for each moves only a moment
            found = tab.wait_for_function(f"() => {{ const found = ({MOVING})(); return found.length && found; }}")
            moving[wish].update(found.json_value())
        for _ in range(20):  # over some passes
            moving[wish].update(tab.evaluate(MOVING))
            tab.wait_for_timeout(25)
        set_pace(tab, "Real time")
        finish(tab)
    assert moving["reduce"] == set()
    assert moving["no-preference"]
