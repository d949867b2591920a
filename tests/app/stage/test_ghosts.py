"""What the Compare tab draws of rejected proposals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from app import stream

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., "Page"]
Message = dict[str, Any]


def ghosts_shown(tab: Page) -> list[list[str]]:
    """The rejected proposals of each pass of lane b that are in view."""
    rows = tab.locator("[data-lane=b] .lens-pass + .lens-ghosts").all()
    shown = [[ghost for ghost in row.locator(".lens-ghost").all() if ghost.is_visible()] for row in rows]
    return [[ghost.get_attribute("data-piece") or "" for ghost in row] for row in shown]


def test_rejected_proposals_are_those_of_the_newest_pass_and_afterwards_the_first_of_each(
    mount: Mount, play: Any
) -> None:
    tab = mount()
    play.sample(tab)
    assert ghosts_shown(tab) == [[], ["ghost", "·two"]]
    assert tab.text_content("[data-lane=b] .lens-text") == "One twoOne two"
    play.finish(tab, "a", "b")
    assert ghosts_shown(tab) == [["ghost"], ["ghost"]]
    tab.locator("[data-lane=b] .lens-token").first.click()
    assert ghosts_shown(tab) == [["ghost", "·two"], ["ghost"]]
    assert tab.locator(".lens-ghosts:not([aria-hidden=true])").count() == 0


def test_the_switch_for_rejected_proposals_is_remembered(mount: Mount, play: Any) -> None:
    tab = mount()
    for shown in (True, False):
        play.sample(tab)
        assert ghosts_shown(tab) == [[], ["ghost", "·two"] if shown else []]
        tab.get_by_role("switch", name="Show rejected proposals").click()
        assert ghosts_shown(tab) == [[], [] if shown else ["ghost", "·two"]]
        tab.reload()
    assert tab.get_by_role("switch").is_checked()


@pytest.mark.parametrize(
    ("family", "refused", "more", "reasons"),
    [
        (
            "masks",
            "threshold",
            {"threshold": 0.9},
            ("Refused: its score does not reach τ.", "Behind a refused proposal: acceptance goes from left to right."),
        ),
        ("masks", None, {}, ("Refused: one token per pass is in force.",) * 2),
        ("masks", "end", {"threshold": 0.9}, ("Not needed: the turn had ended before it.",) * 2),
        ("masks", "limit", {"threshold": 0.9}, ("Not needed: the length limit was reached before it.",) * 2),
        (
            "exact",
            "draft",
            {},
            (
                "Refused: it read a draft that is not what the model itself says.",
                "Kept as a draft: the next pass verifies it.",
            ),
        ),
    ],
    ids=["threshold", "one-token", "end", "limit", "draft"],
)
def test_a_rejected_proposal_says_why(
    mount: Mount, play: Any, family: str, refused: str | None, more: Message, reasons: tuple[str, str]
) -> None:
    tab = mount()
    play.start(tab, play.lane("b", family))
    ghosts = [["no", 0.5, "draft" if refused == "draft" else "mask"], ["nor this", 0.99, "mask"]]
    play.feed(tab, play.passed("b", 1, [play.token("yes")], ghosts, refused=refused, **more))
    for place, reason in enumerate(reasons):
        tab.locator(".lens-text .lens-ghost").nth(place).click()
        assert tab.inner_text(".lens-card-where") == f"Pass 1 · position {place + 2} of 3 · not accepted"
        assert tab.inner_text(".lens-card-reason") == reason
        assert tab.locator(".lens-alternatives").is_hidden()


def test_long_lanes_that_end_together_show_the_refused_of_every_pass_in_the_end(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("b", "masks"), play.lane("c", "masks"))
    ghosts = [["ghost", 0.6, "mask"], [" two", 0.3, "mask"]]
    for key in "bc":
        play.feed(
            tab, *(play.passed(key, number, [play.token("x")], ghosts, threshold=0.9) for number in range(1, 100))
        )
    play.feed(tab, stream.lane_end("b", "stop", ""))
    play.feed(tab, stream.lane_end("c", "stop", ""))
    shown = (
        "[...document.querySelectorAll('.lens-text .lens-ghost')].filter(ghost => ghost.getClientRects().length).length"
    )
    tab.wait_for_function(f"{shown} === 198")
    assert tab.locator(".lens-ghosts.kept").count() == 198
