"""What people and models write stays text."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., Page]


def test_markup_stays_text_in_tokens_ghosts_and_cards(mount: Mount, play: Any) -> None:
    tab = mount()
    evil = "<img src=x onerror=\"document.title='gone'\"><b>bold</b>"
    play.start(tab, play.lane("b", "masks", title=evil, texts={"inactive": evil}))
    tokens, ghosts = [play.token(evil), play.token(evil, 0.9, "mask")], [play.token(evil, 0.5, "mask")]
    play.feed(tab, play.passed("b", 1, tokens, ghosts, threshold=0.8))
    tab.locator(".lens-text .lens-token").last.hover()
    assert tab.text_content(".lens-text") == evil * 2
    assert tab.locator(".lens-stage :is(img, b, script)").count() == 0
    assert tab.title() == "stage"
