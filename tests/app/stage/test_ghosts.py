"""What the Compare tab draws of rejected proposals."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., Page]


def ghosts_shown(tab: Page) -> list[list[str]]:
    """The rejected proposals of each pass of lane b that are in view."""
    rows = tab.locator("[data-lane=b] .lens-pass + .lens-ghosts").all()
    shown = [[ghost for ghost in row.locator(".lens-ghost").all() if ghost.is_visible()] for row in rows]
    return [[ghost.get_attribute("data-piece") or "" for ghost in row] for row in shown]


def details(tab: Page) -> None:
    tab.get_by_role("switch", name="Details").click()


def test_the_card_has_the_rejected_and_details_show_them(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    assert ghosts_shown(tab) == [[], []]
    assert tab.text_content("[data-lane=b] .lens-text") == "One twoOne two"
    tab.locator("[data-lane=b] .lens-token").first.hover()
    assert tab.inner_text(".lens-card-rejected") == "Not accepted: “ghost” 0.60, “·two” 0.30."
    tab.locator("[data-lane=a] .lens-token").first.hover()
    assert tab.locator(".lens-card-rejected").is_hidden()
    details(tab)
    assert ghosts_shown(tab) == [["ghost"], ["ghost"]], "where each pass ended"
    tab.locator("[data-lane=b] .lens-token").first.click()
    assert ghosts_shown(tab) == [["ghost", "·two"], ["ghost"]]
    assert tab.locator(".lens-ghosts:not([aria-hidden=true])").count() == 0
    tab.reload()
    play.sample(tab)
    assert ghosts_shown(tab) == [["ghost"], ["ghost"]], "the switch is remembered"
    # tests/browser/compare.test.mjs has every reason.
    reasons = "Refused: its score does not reach τ.", "Not accepted: a proposal to its left was refused."
    for place, reason in enumerate(reasons):
        tab.locator("[data-lane=b] .lens-pass").first.locator(".lens-token").first.click()  # shows all of its pass
        tab.locator("[data-lane=b] .lens-ghost").nth(place).click()
        assert tab.inner_text(".lens-card-where") == f"Pass 1 · position {place + 3} of 4 · not accepted"
        assert tab.inner_text(".lens-card-reason") == reason
        assert tab.locator(".lens-alternatives").is_hidden()
    details(tab)
    tab.reload()
    assert not tab.get_by_role("switch").is_checked()
