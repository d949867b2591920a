"""What the Compare tab draws of passes: bands of tokens, and the card of each token."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., Page]


LOOK = "node => ['backgroundImage', 'backgroundSize'].map(name => getComputedStyle(node)[name])"


def test_a_band_ends_with_its_number_of_tokens(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("b", "masks"))
    for number, count in enumerate((1, 2, 5, 30), 1):
        play.feed(tab, play.passed("b", number, [play.token("x")] * count))
    bands = tab.locator(".lens-text .lens-pass")
    tints = bands.evaluate_all("all => all.map(each => getComputedStyle(each).backgroundColor)")
    assert tints == tints[:2] * 2
    assert tints[0] != tints[1]
    said = bands.evaluate_all("all => all.map(each => each.querySelector('.lens-count')?.dataset.count)")
    assert said == [None, "2", "5", "30"]
    frame = "node => [getComputedStyle(node, '::after').borderTopStyle, node.textContent]"
    assert tab.locator(".lens-text .lens-count").first.evaluate(frame) == ["solid", ""]  # no exponent, and not copied


def test_a_band_says_who_proposed_its_tokens(mount: Mount, play: Any) -> None:
    tab = mount(1024, 768)
    play.start(tab, *(play.lane(key, "masks") for key in "ab"), play.lane("c", "exact"))
    mask, draft, copy = (play.token("x", source=source) for source in ("mask", "draft", "copy"))
    play.feed(tab, play.passed("b", 1, [play.token("x"), mask, mask]))
    play.feed(tab, play.passed("c", 1, [play.token("x"), draft, copy], phase="verify", decoder="self_speculative"))
    signs = tab.locator(".lens-text .lens-count")
    assert signs.evaluate_all("all => all.map(each => each.dataset.by)") == ["\u00a0m", "\u00a0m\u00a01\u00a0c\u00a01"]
    assert signs.first.get_attribute("title") == (
        "3 tokens from this pass: 2 proposed by masks; the rest read off real text"
    )
    play.feed(tab, play.passed("a", 1, [play.token("def"), play.token(":\n")]))
    assert tab.get_attribute("[data-lane=a] .lens-newline > .lens-count:first-child", "data-count") == "2"
    assert tab.text_content("[data-lane=a] .lens-text") == "def:\n"
    for number in range(2, 40):
        pieces = [play.token("x" * (1 + number % 7)), play.token("y", 0.9, "mask"), play.token("z", 0.9, "copy")]
        play.feed(tab, play.passed("b", number, pieces))
    tab.wait_for_selector("[data-lane=b] [data-pass='39']", state="attached")
    lines = "all => all.map(each => each.getClientRects().length)"
    assert tab.locator("[data-lane=b] .lens-count").evaluate_all(lines) == [1] * 39, "a sign stays in one line"


def test_scores_are_lines_on_a_band_in_view(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("b", "masks"))
    tokens = play.token("clean", 1.0), play.token("mask", 0.5, "mask"), play.token("draft", 0.5, "draft")
    play.feed(tab, play.passed("b", 1, tokens))
    looks = [each.evaluate(LOOK) for each in tab.locator(".lens-text .lens-token").all()]
    assert all(size.endswith(" 0px") for _, size in looks)
    tab.locator(".lens-text .lens-token").first.hover()
    hovered = [each.evaluate(LOOK) for each in tab.locator(".lens-text .lens-token").all()]
    tab.mouse.move(0, 0)
    tab.get_by_role("switch", name="Details").click()
    looks = [each.evaluate(LOOK) for each in tab.locator(".lens-text .lens-token").all()]
    assert looks == hovered
    assert len({image for image, size in looks if not size.endswith(" 0px")}) == 3
    assert "1 * (100% - 3px)" in looks[0][1] or looks[0][1].startswith("calc(100% - 3px)")
    assert all("50%" in size or "0.5 *" in size for _, size in looks[1:])


@pytest.mark.parametrize(
    ("name", "score", "threshold", "shown"),
    [("probability", 0.79999, 0.8, "Score 0.7999"), ("entropy", 0.80001, 0.8, "Entropy 0.8001 nats")],
)
def test_no_score_is_rounded_to_the_threshold(
    mount: Mount, play: Any, name: str, score: float, threshold: float, shown: str
) -> None:
    tab = mount()
    play.start(tab, play.lane("b", "masks", score=name, follows=False, threshold=threshold, window="auto"))
    play.feed(tab, play.passed("b", 1, [play.token("first", score)], threshold=threshold, score=name))
    tab.locator(".lens-text .lens-token").first.hover()
    assert shown in tab.inner_text(".lens-card")
    assert tab.inner_text(".lens-card-reason").endswith("accepted. This pass read no mask, since none would pay.")


def test_a_card_says_what_else_was_likely(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    tab.locator("[data-lane=b] .lens-pass").first.locator(".lens-token").last.hover()
    card = tab.locator(".lens-card")
    assert card.locator("p").all_inner_texts() == [
        "Pass 1 · proposal 2 of 4",
        "Score 0.9700 · τ 0.95",
        "It read masks; accepted because its score reaches τ.",
    ]
    assert [item.split() for item in card.locator("li").all_inner_texts()] == [
        ["·two", "0.970"],
        ["other", "<", "0.001"],
    ]
    assert card.locator("li.said").inner_text().startswith("·two")
    wide, narrow = (
        item.evaluate("node => getComputedStyle(node).getPropertyValue('--share')") for item in card.locator("li").all()
    )
    assert (wide, narrow) == ("97%", "0.04%")
    tab.mouse.move(0, 0)
    assert card.is_hidden()


def test_a_small_window_shows_the_whole_card(mount: Mount, play: Any) -> None:
    tab = mount(width=1024, height=480)
    play.sample(tab)
    token = tab.locator("[data-lane=b] .lens-token").first
    token.hover()
    tab.wait_for_selector(".lens-card:not([hidden])")
    card, own = tab.locator(".lens-card").bounding_box(), token.bounding_box()
    assert card
    assert own
    assert card["y"] >= 0
    assert card["y"] + card["height"] <= 480
    apart = card["x"] >= own["x"] + own["width"] or card["x"] + card["width"] <= own["x"]
    assert apart or card["y"] >= own["y"] + own["height"] or card["y"] + card["height"] <= own["y"]


def test_a_resting_pointer_opens_nothing(mount: Mount, play: Any) -> None:
    tab = mount(height=500)
    play.sample(tab)
    card = tab.locator(".lens-card")
    tab.mouse.move(0, 0)
    tab.evaluate("document.body.style.padding = '600px 0'")
    box = tab.locator("[data-lane=b] .lens-token").first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, 250.0
    tab.mouse.move(x, y)
    tab.evaluate(f"window.scrollBy(0, {box['y'] + box['height'] / 2 - y})")
    tab.wait_for_function("([x, y]) => document.elementFromPoint(x, y).closest('[data-lane=b]')", arg=[x, y])
    tab.wait_for_timeout(300)
    assert card.is_hidden()
    tab.mouse.move(x + 1, y)
    assert card.is_visible()


def test_arrow_keys_walk_through_tokens_and_ghosts(mount: Mount, play: Any) -> None:
    tab = mount()
    tab.get_by_role("switch", name="Details").click()
    play.sample(tab)
    tab.focus("[data-lane=b] .lens-text")
    walked = []
    for key in ["Home", *["ArrowRight"] * 7]:
        tab.keyboard.press(key)
        walked.append(tab.inner_text(".lens-card-where"))
    places = [(number, place) for number in (1, 2) for place in (1, 2, 3, 4)]
    assert walked == [f"Pass {one} · proposal {two} of 4" + " · not accepted" * (two > 2) for one, two in places]
    assert tab.evaluate("document.activeElement.closest('[aria-hidden=true]')") is None
    tab.keyboard.press("Home")
    assert tab.locator(".lens-ghosts:not([aria-hidden=true])").count() == 0
    tab.keyboard.press("Escape")
    assert tab.locator(".lens-card").is_hidden()
    tab.get_by_role("switch").click()
    tab.focus("[data-lane=b] .lens-text")
    tab.keyboard.press("End")
    assert tab.inner_text(".lens-card-where") == "Pass 2 · proposal 2 of 4"


def ghosts_shown(tab: Page) -> list[list[str]]:
    """The rejected proposals of each pass of lane b that are in view."""
    rows = tab.locator("[data-lane=b] .lens-pass + .lens-ghosts").all()
    shown = [[ghost for ghost in row.locator(".lens-ghost").all() if ghost.is_visible()] for row in rows]
    return [[ghost.get_attribute("data-piece") or "" for ghost in row] for row in shown]


def details(tab: Page) -> None:
    tab.get_by_role("switch", name="Details").click()


def test_details_show_the_rejected(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    assert ghosts_shown(tab) == [[], []]
    assert tab.text_content("[data-lane=b] .lens-text") == "One twoOne two"
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
        assert tab.inner_text(".lens-card-where") == f"Pass 1 · proposal {place + 3} of 4 · not accepted"
        assert tab.inner_text(".lens-card-reason") == reason
        assert tab.locator(".lens-alternatives").is_hidden()
    details(tab)
    tab.reload()
    assert not tab.get_by_role("switch").is_checked()


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
