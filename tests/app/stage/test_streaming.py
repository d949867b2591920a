"""What a growing text costs the page: it only appends, measures nothing, and nothing moves."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., Page]


WATCH = """() => {
    window.read = [];
    const watch = (type, name) => {
        const { get, value } = Object.getOwnPropertyDescriptor(type.prototype, name);
        const noted = function (...rest) { read.push(name); return (get ?? value).apply(this, rest); };
        Object.defineProperty(type.prototype, name, get ? { get: noted } : { value: noted });
    };
    for (const name of ["offsetTop", "offsetHeight", "offsetWidth", "offsetParent"]) watch(HTMLElement, name);
    for (const name of ["getBoundingClientRect", "getClientRects", "clientWidth"]) watch(Element, name);
    window.removed = 0;
    const count = (changes) => changes.forEach((change) => { removed += change.removedNodes.length; });
    const observer = new MutationObserver(count);
    const watched = { childList: true, subtree: true };
    document.querySelectorAll(".lens-text").forEach((text) => observer.observe(text, watched));
    window.changed = [];
    const classes = new MutationObserver((all) => changed.push(...all.map(({ target }) => target.className)));
    for (let node = document.querySelector(".lens-text"); node; node = node.parentElement) {
        classes.observe(node, { attributeFilter: ["class"] });
    }
}"""


def test_streaming_only_appends_and_measures_nothing(mount: Mount, play: Any) -> None:
    tab = mount(reduced_motion="no-preference")
    play.start(tab, play.lane("a", "ar"), play.lane("b", "masks"), play.lane("c", "exact"))
    tab.evaluate(WATCH)
    for number in range(1, 30):
        ghosts = [play.token("ghost", 0.6, "mask")]
        play.feed(tab, *(play.passed(key, number, [play.token("x")] * 3, ghosts, threshold=0.9) for key in "abc"))
    tab.wait_for_timeout(600)
    assert tab.evaluate("[read, removed]") == [[], 0]
    assert tab.locator("[data-lane=c] .lens-text .lens-token").count() == 87
    moving = "all => all.map(each => getComputedStyle(each).animationName)"
    assert set(tab.locator(".lens-text .lens-pass").evaluate_all(moving)) == {"none"}
    play.finish(tab, "a", "b", "c")
    tab.wait_for_selector("[data-state=done]")
    assert tab.evaluate("changed") == [], "no class around a text"
