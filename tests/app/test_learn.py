"""The course in a real browser: its pages tick themselves off when their task is done, and stay ticked."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser


def learn(tab: Page) -> Page:
    tab.get_by_role("tab", name="Learn").click()
    tab.wait_for_selector(".lens-learn-entry")
    return tab


@pytest.fixture(scope="module")
def course(served: Any, visit_once: Visit) -> Page:
    """A course that the tests take one after the other."""
    return learn(visit_once(served.url))


def turn(tab: Page, number: int) -> None:
    tab.locator(".lens-learn-entry").nth(number).click()


def done(tab: Page, number: int) -> bool:
    return tab.locator(".lens-learn-entry").nth(number).inner_text().startswith("✓")


def press(tab: Page, name: str, times: int = 1) -> None:
    for _ in range(times):
        tab.locator(".lens-learn-stage").get_by_role("button", name=name).click()


def slide(tab: Page, label: str, value: str) -> None:
    tab.locator(".lens-learn-slider", has_text=label).locator("input").fill(value)


def test_every_page_ticks_itself_off(course: Page) -> None:
    for number in range(6):
        turn(course, number)
        asked = course.inner_text(".lens-learn-page > h2 + .lens-learn-question")
        assert asked.count("?") == asked.endswith("?") == 1
        assert course.locator(".lens-learn-stage .lit").count() == 1
        assert not done(course, number)
    turn(course, 0)
    press(course, "Next forward pass", 9)
    assert not done(course, 0)
    press(course, "Next forward pass")
    assert done(course, 0)
    turn(course, 1)
    while not done(course, 1):
        press(course, "Fill the masks")
        if not done(course, 1):
            press(course, "Next pass")
    turn(course, 2)
    for hundredths in range(100, 4, -1):
        slide(course, "Threshold", f"{hundredths / 100:.2f}")
    assert done(course, 2)
    turn(course, 3)
    while not done(course, 3):
        knob = course.locator(".lens-learn-slider input")
        knob.fill(str(int(knob.input_value()) - 1))
    assert "× wrong" in course.inner_text(".lens-learn-told")
    turn(course, 4)
    for place in range(10):
        slide(course, "Columns", str(place))
        assert not done(course, 4) or place == 9
    for place in range(9, -1, -1):
        slide(course, "Columns", str(place))
    assert done(course, 4)
    turn(course, 5)
    while not done(course, 5):
        press(course, "Next pass")
    assert course.locator(".lit").count() == 0
    assert course.locator(".lens-learn-praise").inner_text() == "✓ Done, and with it the whole course."
    course.reload()
    learn(course)
    assert all(done(course, number) for number in range(6))


def test_text_is_drawn_in_the_bands_of_compare(course: Page) -> None:
    turn(course, 1)
    press(course, "Next pass", 12)
    bands = course.locator(".lens-learn-text > .lens-pass")
    counts = bands.evaluate_all("""all => all.map(band => [
        band.querySelectorAll('.lens-token').length, Number(band.querySelector('.lens-count')?.dataset.count ?? 1)])""")
    assert max(tokens for tokens, _ in counts) >= 2
    assert all(tokens == said for tokens, said in counts)
    lines = "node => [getComputedStyle(node).borderLeftWidth, getComputedStyle(node).backgroundSize.split(' ').at(-1)]"
    assert course.locator(".lens-learn-text .lens-token").first.evaluate(lines) == ["0px", "0px"]


def test_it_fits_a_phone_with_the_reference(course: Page) -> None:
    course.set_viewport_size({"width": 390, "height": 844})
    for number in range(6):
        turn(course, number)
        assert course.evaluate("document.documentElement.scrollWidth") <= 390
    course.get_by_role("button", name="The method on one page").click()
    shown = course.locator("#learn-reference pre")
    shown.wait_for()
    assert "def exact(" in shown.inner_text()
