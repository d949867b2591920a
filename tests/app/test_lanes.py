"""The lanes of Compare in a real Chromium: how many there are, what each writes with, and what it says of itself."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.driving import choose, run

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser

PRESETS = ["AR", "MARS", "MARS exact"]


def wait_for_about(tab: Page, lane: str, start: str) -> None:
    tab.wait_for_function(
        "([lane, start]) => document.querySelector(`[data-lane=${lane}] .lens-lane-about`)"
        "?.textContent.startsWith(start)",
        arg=[lane, start],
    )


@pytest.fixture(scope="module")
def wide(served: Any, visit_once: Visit) -> Page:
    """A page with three lanes, for tests that leave them as they were."""
    tab = visit_once(served.url, 1280)
    tab.wait_for_selector(".lens-lane >> nth=2")
    return tab


def fold(tab: Page) -> None:
    """Open or close the settings of lane B."""
    tab.locator("#lane-b .lens-lane-settings > button").click()


def restore(tab: Page) -> None:
    """Lane B as it began, and lanes that have answered nothing: another number of them has not."""
    tab.locator("#lanes label").first.click()
    tab.wait_for_function("document.querySelectorAll('.lens-lane').length === 2")
    tab.locator("#lanes label").last.click()
    choose(tab, "lane-b-preset", PRESETS[1])
    wait_for_about(tab, "b", "mars · MARS, threshold, block size 8")


def test_two_lanes_can_be_chosen(served: Any, wide: Page) -> None:
    tab = wide
    tab.locator("#lanes label").first.click()
    tab.wait_for_function("document.querySelectorAll('.lens-lane').length === 2")
    run(tab)
    assert [lane.key for lane in served.last_run()] == ["a", "b"]
    tab.locator("#lanes label").last.click()
    tab.wait_for_function("document.querySelectorAll('.lens-lane').length === 3")


def test_controls_stand_above_their_lanes(wide: Page) -> None:
    places = wide.evaluate(
        "['.lens-lane-controls', '.lens-lane'].map(name => [...document.querySelectorAll(name)]"
        ".map(node => Math.round(node.getBoundingClientRect().left)))"
    )
    assert places[0] == places[1]


def test_names_in_the_settings_are_whole(wide: Page) -> None:
    widths = wide.evaluate("""() => [...document.querySelectorAll('.lens-lane-who .form')].map(form => {
        const fields = [...form.querySelectorAll('input')];
        return fields.map(field => field.getBoundingClientRect().width);
    })""")
    assert len(widths) == 3
    for preset, checkpoint, decoder in widths:
        assert min(checkpoint, decoder) > 140  # the longest name, and the arrow
        assert preset > max(checkpoint, decoder)


def test_a_question_is_read_whole(wide: Page) -> None:
    tab = wide
    before = tab.input_value("#prompt textarea")
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.fill("#prompt textarea", "Write a Python function that reverses a string.")
    tab.click("h1")
    box = "document.querySelector('#prompt textarea')"
    for window in (390, 1024):
        if window == 1024:
            tab.set_viewport_size({"width": window, "height": 800})
            tab.click(".lens-projecting")
        needs, has, across, width = tab.evaluate(
            f"[{box}.scrollHeight, {box}.clientHeight, {box}.scrollWidth, {box}.clientWidth]"
        )
        assert needs < has + 13  # half a line: letters may be higher than their line
        assert across <= width
    tab.click(".lens-projecting")
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.fill("#prompt textarea", before)


def test_presets_and_decoders_choose_the_controls(served: Any, wide: Page) -> None:
    tab = wide
    choose(tab, "lane-a-preset", "MARS exact")
    wait_for_about(tab, "a", "mars · MARS, exact")
    assert tab.input_value("#lane-a-checkpoint input") == "mars"
    assert tab.input_value("#lane-a-decoder input") == "MARS, exact"
    choose(tab, "lane-a-decoder", "Jacobi")
    wait_for_about(tab, "a", "mars · Jacobi, 4 draft tokens")
    assert tab.input_value("#lane-a-preset input") == "Own"
    fold(tab)
    tab.wait_for_selector("#lane-b-temperature", state="visible")
    choose(tab, "lane-b-decoder", "MARS, exact")
    tab.wait_for_selector("#lane-b-layout", state="visible")
    assert tab.locator("#lane-b-mode, #lane-b-score").locator("visible=true").count() == 0
    tab.fill("#lane-b-temperature input", "0.5")
    tab.wait_for_selector("#lane-b-seed", state="visible")
    tab.fill("#lane-b-temperature input", "0")
    choose(tab, "lane-b-decoder", "Draft model")
    tab.wait_for_selector("[data-lane=b] .lens-lane-problem:has-text('needs a draft')")
    tab.wait_for_selector("#lane-b-draft", state="visible")
    choose(tab, "lane-b-draft", "markup")
    wait_for_about(tab, "b", "mars · Draft model, block size 8, 4 draft tokens, draft markup")
    run(tab)
    assert {record.phase for record in served.last_run()[1].records} == {"prefill", "draft", "verify"}
    restore(tab)
    choose(tab, "lane-a-preset", "AR")
    wait_for_about(tab, "a", "ar · AR")
    fold(tab)


def test_a_lane_has_settings_of_its_own(served: Any, wide: Page) -> None:
    tab = wide
    fold(tab)
    tab.fill("#lane-b-block-size input", "100")
    tab.wait_for_selector("[data-state=failed]")
    assert tab.inner_text(".lens-status") == "Lane B: Block size must be between 1 and 64, got 100."
    tab.fill("#lane-b-block-size input", "4")
    tab.wait_for_selector("[data-state=idle]")
    tab.locator("#lane-b-mode label", has_text="Own").click()
    tab.fill("#lane-b-threshold input", "0.6")
    tab.wait_for_function("document.querySelector('[data-lane=b] .lens-lane-about').textContent.includes('τ 0.60')")
    tab.wait_for_selector("#threshold input[type=range]:disabled")  # no lane follows it
    run(tab)
    tab.fill("#lane-b-block-size input", "5")
    tab.wait_for_selector(".lens-answers:text-is('The answers below were written with other settings')")
    assert tab.locator("[data-lane=b] .lens-pass").count() > 0
    recorded = {record.rows[0].threshold for record in served.last_run()[1].records if record.phase == "decode"}
    assert recorded == {0.6}
    fold(tab)
    restore(tab)
    tab.fill("#prompt textarea", "Which?")
    assert tab.text_content(".lens-answers") == "", "nothing is answered yet"
