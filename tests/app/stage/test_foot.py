"""What the stage tells of all lanes: where their texts part, and the counts that the other tabs hear of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from app.compare import stream
from app.server.routes import event

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., "Page"]


def test_first_differences_are_marked_in_every_lane(mount: Mount, play: Any) -> None:
    tab = mount(1600)
    play.start(tab, play.lane("a", "ar"), play.lane("b", "masks"), play.lane("c", "exact"))
    for key in "abc":
        play.feed(tab, play.passed(key, 1, [play.token("zero"), play.token("one"), play.token("two")]))
    play.feed(
        tab,
        stream.Difference(kind="difference", tokens={"a": 1, "b": 2}, baseline="a"),
        stream.Same(kind="same", lanes=["a", "c"]),
    )
    marked = tab.locator(".lens-text .differs").evaluate_all(
        "all => all.map(each => [each.textContent, each.dataset.differs])"
    )
    assert marked == [["one", "B"], ["two", "A"]]
    assert (
        tab.inner_text(".lens-parting") == "B and A first differ at token 2 of A, 3 of B. C and A wrote the same text."
    )
    play.feed(
        tab,
        stream.Correctness(kind="verdict", lane="a", right=True),
        stream.Correctness(kind="verdict", lane="b", right=False),
    )
    assert tab.locator(".lens-badge").all_inner_texts() == ["✓ right", "× wrong", ""]


def test_word_of_the_counts_goes_round_once_for_many_updates_and_the_keeper_has_the_last(
    mount: Mount, play: Any
) -> None:
    tab = mount()
    play.start(tab, play.lane("a", "ar"), play.lane("b", "masks", block_size=8), identity="before")
    tab.wait_for_timeout(600)  # until the next picture
    updates = [stream.line(play.passed("b", number, [play.token("x")], threshold=0.9)) for number in range(1, 41)]
    updates += [stream.line(stream.lane_end("b", "stop", "")), stream.line(stream.state("done", "Done."))]
    body = "".join(event(number, line) for number, line in enumerate(updates, 1))
    tab.context.route("**/events", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    tab.evaluate("told.length = 0")
    play.feed(tab, stream.follow("run"))
    tab.wait_for_function("told.length > 0")
    tab.wait_for_timeout(600)
    told = tab.evaluate("told")
    assert [(each["lane"], each["counts"]["passes"]) for each in told] == [("b", 40)]
    live = tab.evaluate("[...lens.keeper.live]")
    assert live == [["b", told[0]]]
    assert told[0]["settings"]["block_size"] == 8
    assert (told[0]["run"], told[0]["family"], told[0]["threshold"]) == ("run", "masks", 0.9)
    play.start(tab, play.lane("a", "ar"), identity="next")
    play.feed(tab, play.passed("a", 1, [play.token("x")]))
    tab.wait_for_function("[...lens.keeper.live.keys()].join() === 'a'")
