"""The choice of models in a real Chromium: what it sets and shows, what the address keeps, and lanes that wait."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from app.compare import problems
from tests.app.driving import begin, finish, run, said, set_pace, wait_said

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser
SKY = problems.QUESTIONS[0][1]


def wait_value(tab: Page, selector: str, value: str) -> None:
    tab.wait_for_function("([of, value]) => document.querySelector(of)?.value === value", arg=[selector, value])


def choose(tab: Page, number: int) -> None:
    tab.click(f"#models label >> nth={number}")


def is_shown(tab: Page, selector: str) -> bool:
    return bool(tab.evaluate("s => document.querySelector(s)?.getClientRects().length > 0", selector))


def test_a_run_waits_for_its_model(two_pairs: Any, visit: Visit) -> None:
    tab = visit(two_pairs.url + "?pace=0&tau=0.5")
    assert tab.input_value("#prompt textarea") == SKY
    tab.fill("#prompt textarea", "Which?")  # what stands below is no answer to this any more
    tab.wait_for_selector(".lens-recorded", state="detached")
    tab.click("#run")
    tab.wait_for_selector("#stop:not([disabled])")
    tab.wait_for_selector(".lens-status:has-text('Loading base … reading, 40 %')")
    two_pairs.ready.touch()
    tab.wait_for_selector("[data-state=done]")
    tokens = tab.inner_text(".lens-lane-exact .lens-counter-tokens dd")
    agreement = tab.locator(".lens-lane-exact .lens-lane-agreement")
    assert (agreement.inner_text(), agreement.get_attribute("data-tokens")) == ("Same text as AR", tokens)
    assert tab.inner_text(".lens-lane-masks .lens-lane-agreement") == ""
    begin(tab, "Readable")
    choose(tab, 1)  # whose slider begins elsewhere: what runs keeps its τ
    wait_value(tab, "#lane-a-checkpoint input", "ar-sft")
    seen = tab.locator("[data-lane=b] .lens-pass").count()
    tab.wait_for_selector(f"[data-lane=b] .lens-pass >> nth={seen + 2}")
    set_pace(tab, "Real time")
    finish(tab)
    bands = [tab.locator(f"[data-lane=b] [data-threshold]{which}").count() for which in ("", "[data-threshold='0.5']")]
    assert bands[0] == bands[1] > 1


@pytest.fixture(scope="module")
def tab(two_pairs: Any, visit_once: Visit) -> Page:
    """A page whose tests go on from where the one before left it."""
    two_pairs.ready.touch()
    return visit_once(two_pairs.url)


def test_the_other_pair_is_one_click_away(tab: Page) -> None:
    assert [is_shown(tab, each) for each in (".lens-questions", "#family", "#board-section")] == [True, False, True]
    assert tab.locator(".lens-questions button").count() == 8
    assert (tab.input_value("#limit input"), urlsplit(tab.url).query) == ("256", "")
    choose(tab, 1)
    for lane, checkpoint in zip("abc", ("ar-sft", "mars-b8", "mars-b8"), strict=True):
        wait_value(tab, f"#lane-{lane}-checkpoint input", checkpoint)
    wait_value(tab, "#prompt textarea", problems.find(*problems.EXAMPLES[0][1:]).prompt)
    assert [is_shown(tab, each) for each in (".lens-questions", "#family", "#board-section")] == [False, True, True]
    assert tab.input_value("#limit input") == "192"
    assert tab.inner_text("#known-answer strong") == "54"
    tab.wait_for_selector("[data-state=idle]")
    run(tab)
    assert tab.locator(".lens-badge.right").count() >= 1
    choose(tab, 0)
    wait_value(tab, "#lane-c-checkpoint input", "adapted")
    wait_value(tab, "#prompt textarea", SKY)
    tab.wait_for_function("location.search === ''")
    label, prompt = problems.QUESTIONS[3]
    tab.click(f".lens-questions button:text('{label}')")
    wait_value(tab, "#prompt textarea", prompt)
    wait_said(tab, prompt=prompt, task="python_functions", seed="8")


def test_choice_prompt_and_lanes_survive_in_the_address(two_pairs: Any, tab: Page, visit: Visit) -> None:
    other = visit(tab.url)
    assert other.input_value("#prompt textarea") == problems.QUESTIONS[3][1]
    assert other.input_value("#lane-b-checkpoint input") == "adapted", "a problem that the address names"
    choose(tab, 1)
    tab.wait_for_function("location.search.includes('models=tiny')")
    wait_value(tab, "#lane-a-checkpoint input", "ar-sft")
    tab.click("#lane-a-checkpoint input")
    tab.click("#lane-a-checkpoint [role=option]:has-text('base')")
    tab.wait_for_function("location.search.includes('a.checkpoint=base')")
    found = said(tab)
    assert (found["models"], found["a.checkpoint"]) == ("tiny", "base")
    other.goto(tab.url)
    wait_value(other, "#lane-a-checkpoint input", "base")
    wait_value(other, "#lane-b-checkpoint input", "mars-b8")
    assert is_shown(other, "#board-section")
    other.goto(two_pairs.url + "?task=logic&seed=3&tau=0.8")  # without a choice
    wait_value(other, "#prompt textarea", problems.find("logic", 3).prompt)
    wait_value(other, "#lane-b-checkpoint input", "mars-b8")
    assert is_shown(other, "#family")
    tab.wait_for_function("location.search.includes('models=tiny')")
    wait_said(other, task="logic", seed="3", tau="0.8", models="tiny")
