"""Addresses in a real Chromium: each view has one, and it restores the view."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Page

from app.compare import problems
from tests.app.driving import run, said, selected, wait_said
from tests.app.test_axe import MODES, change, complaints

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser

WITHOUT = "Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })"


def wait_selected(tab: Page, name: str) -> None:
    tab.wait_for_selector(f"#tab-{name}-button[aria-selected=true]")


def prompt_is(tab: Page, prompt: str) -> None:
    tab.wait_for_function("prompt => document.querySelector('#prompt textarea')?.value === prompt", arg=prompt)


def wait_names(tab: Page, name: str, value: str) -> None:
    has = "([name, value]) => new URLSearchParams(location.search).get(name) === value"
    tab.wait_for_function(has, arg=[name, value])


def refused(tab: Page) -> str:
    tab.wait_for_selector(".lens-refused span:not(:empty)")
    return tab.inner_text(".lens-refused span")


@pytest.fixture(scope="module")
def tab(served: Any, visit_once: Visit) -> Page:
    """A page whose tests go on from where the one before left it."""
    return visit_once(served.url)


@pytest.fixture(scope="module")
def other(served: Any, visit_once: Visit) -> Page:
    """Somebody else's page, which opens what the first one gives."""
    return visit_once(served.url)


def open_link(tab: Page, url: str) -> None:
    """Load this address, in a page that has kept nothing."""
    tab.goto(url)
    tab.wait_for_function("document.querySelector('#prompt textarea')?.value.length > 0")


def test_the_settings_of_compare_are_restored(tab: Page, other: Page, example: Any) -> None:
    tab.wait_for_timeout(1000)
    assert urlsplit(tab.url).query == "", "the first view has an empty address"
    assert tab.input_value("#prompt textarea") == example.prompt
    tab.fill("#seed input", "7")
    prompt_is(tab, problems.find(problems.EXAMPLES[0][1], 7).prompt)
    tab.fill("#threshold input[type=range]", "0.7")
    tab.fill("#limit input", "64")
    wait_said(tab, seed="7", tau="0.7", limit="64")
    open_link(other, tab.url)
    prompt_is(other, problems.find(problems.EXAMPLES[0][1], 7).prompt)
    assert other.input_value("#threshold input[type=range]") == "0.7"
    assert other.input_value("#limit input") == "64"
    other.wait_for_selector("#threshold-reading strong:text-is('τ = 0.70')")
    tab.fill("#threshold input[type=range]", "0.95")
    wait_said(tab, seed="7", limit="64")


def test_an_own_prompt_is_restored_as_text(tab: Page, other: Page) -> None:
    own = "<img src=x onerror=\"document.title='gone'\"> & 1 + 1 = ?\n{{value}} ${value} 😀"
    tab.fill("#prompt textarea", own)
    wait_names(tab, "prompt", own)
    open_link(other, tab.url)
    prompt_is(other, own)
    assert other.inner_text("#known-answer strong") == ""
    assert other.title() == "MARS Lens"
    other.click(".lens-examples button >> nth=1")
    prompt_is(other, problems.find(*problems.EXAMPLES[1][1:]).prompt)
    wait_names(other, "task", problems.EXAMPLES[1][1])


def test_a_lane_is_restored_by_its_settings(served: Any, other: Page) -> None:
    open_link(other, served.url + "?a.preset=MARS+exact&b.decoder=block_cached&b.block_size=4")
    other.wait_for_selector("[data-lane=a].lens-lane-exact")
    other.wait_for_function("document.querySelector('#lane-b-decoder input').value.toLowerCase().includes('block')")
    other.click("#lane-b .lens-lane-settings button")
    assert other.input_value("#lane-b-block-size input") == "4"
    other.wait_for_timeout(600)
    lane = {"b.decoder": "block_cached", "b.window": "fixed", "b.block_size": "4"}
    assert said(other) == {"a.preset": "MARS exact"} | lane


def test_what_an_address_cannot_say_is_named(served: Any, other: Page) -> None:
    values = {
        "tau": "7",
        "seed": "3",
        "limit": "<b>64</b>",
        "b.block_size": "-5",
        "a.decoder": "__class__",
        "colour": "red",
    }
    open_link(other, served.url + "?tab=<script>")
    assert refused(other) == "This app cannot restore part of the link: tab=<script>. The rest is shown."
    assert selected(other) == "compare"
    open_link(other, f"{served.url}?{urlencode(values)}")
    prompt_is(other, problems.find(problems.EXAMPLES[0][1], 3).prompt)
    sentence = refused(other)
    for name in ("tau=7", "limit=<b>64</b>", "b.block_size=-5", "a.decoder=__class__", "colour=red"):
        assert name in sentence
    assert "seed" not in sentence
    assert other.locator(".lens-refused b").count() == 0
    wait_said(other, seed="3")
    other.click(".lens-refused button")
    assert not other.is_visible(".lens-refused")


def test_a_pass_has_an_address(tab: Page, other: Page) -> None:
    tab.click("#tab-step-button")
    tab.wait_for_selector(".step-top[data-ready]")
    tab.select_option(".step-choice", "3-exact")
    tab.wait_for_selector(".step-column")
    wait_said(tab, tab="step", run="3-exact")
    tab.click(".step-lane[data-lane=one-token]")
    tab.fill(".step-player input[type=range]", "6")
    number = re.match(r"Pass (\d+) of", tab.inner_text(".step-where"))
    assert number is not None
    wait_said(tab, tab="step", run="3-exact", lane="one-token", **{"pass": number[1]})
    open_link(other, tab.url)
    other.wait_for_selector(".step-lane[data-lane=one-token][aria-pressed=true]")
    assert other.inner_text(".step-where") == tab.inner_text(".step-where")


def test_a_pass_that_does_not_exist_is_named(served: Any, other: Page) -> None:
    """By an address that is loaded, and by addresses that Back and Forward bring."""
    open_link(other, f"{served.url}?tab=step&run=nobody&pass=3")
    assert "run=nobody" in refused(other)
    for named in ("lane=<b>", "pass=99999", "pass=NaN"):
        other.click(".lens-refused button")
        other.evaluate(
            "search => { history.pushState(null, '', search); dispatchEvent(new PopStateEvent('popstate')); }",
            f"?tab=step&run=3-exact&{named}",
        )
        other.wait_for_selector(f".lens-refused span:has-text('{named}')")


def test_a_run_is_found_after_a_reload(tab: Page, other: Page) -> None:
    tab.click("#tab-compare-button")
    run(tab)
    tab.wait_for_function("lens.keeper.runs.size > 0")
    tab.click(".lens-step-through")
    tab.wait_for_function("new URLSearchParams(location.search).get('run')?.length > 20")
    tab.fill(".step-player input[type=range]", "4")
    where = tab.inner_text(".step-where")
    tab.wait_for_function("new URLSearchParams(location.search).has('pass')")
    link = tab.url
    tab.reload()
    tab.wait_for_function("where => document.querySelector('.step-where')?.textContent === where", arg=where)
    open_link(other, link)
    assert refused(other).count("run=") == 1


def test_back_and_forward_lead_through_the_tabs(served: Any, tab: Page) -> None:
    open_link(tab, served.url)
    tab.fill("#threshold input[type=range]", "0.8")
    tab.click("#tab-learn-button")
    tab.wait_for_selector(".lens-learn-entry")
    wait_said(tab, tab="learn", lesson="one-token")
    tab.locator(".lens-learn-entry").nth(2).click()
    wait_said(tab, tab="learn", lesson="threshold")
    tab.click("#tab-about-button")
    wait_said(tab, tab="about")
    tab.go_back()
    wait_selected(tab, "learn")
    wait_said(tab, tab="learn", lesson="threshold")
    tab.go_back()
    wait_selected(tab, "compare")
    wait_said(tab, tau="0.8")
    tab.go_forward()
    tab.go_forward()
    wait_selected(tab, "about")
    tab.go_back()
    wait_selected(tab, "learn")
    tab.reload()
    wait_selected(tab, "learn")
    tab.wait_for_selector(".lens-learn-entry:nth-child(1), .lens-learn-entry[aria-current]")
    assert "threshold" in tab.inner_text(".lens-learn-entry[aria-current]").lower()
    tab.click("#tab-compare-button")
    wait_said(tab, tau="0.8")
    tab.evaluate("history.pushState(null, '', '?tau=0.9')")
    tab.go_back()
    tab.go_forward()
    tab.wait_for_function("document.querySelector('#threshold input[type=range]').value === '0.9'")
    tab.go_back()
    tab.wait_for_function("document.querySelector('#threshold input[type=range]').value === '0.8'")


def test_a_link_is_copied_and_survives_reloads(served: Any, tab: Page) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.fill("#threshold input[type=range]", "0.8")
    wait_said(tab, tau="0.8")
    before = tab.locator("#prompt").bounding_box()
    tab.click(".lens-link")
    tab.wait_for_selector(".lens-link-said:has-text('Link copied.')")
    assert tab.locator("#prompt").bounding_box() == before
    assert tab.evaluate("navigator.clipboard.readText()") == served.url.rstrip("/") + "/?tau=0.8"
    tab.evaluate(WITHOUT)
    tab.click(".lens-link")
    tab.wait_for_selector(".lens-link-field:visible")
    assert tab.evaluate("document.getSelection().toString()") == tab.url
    assert tab.inner_text(".lens-link-said") == "Copy this link yourself."
    long = "Ünd so weiter. " * 600
    tab.fill("#prompt textarea", long)
    tab.fill("#limit input", "64")
    wait_said(tab, tau="0.8", limit="64")
    tab.click(".lens-link")
    tab.wait_for_selector(".lens-link-said:has-text('without the prompt: too long for an address.')")
    assert len(tab.input_value(".lens-link-field")) < 500
    tab.reload()
    prompt_is(tab, long)


def test_a_projector_shows_the_code_of_the_link(served: Any, tab: Page) -> None:
    tab.click(".lens-link")
    assert tab.locator(".lens-code").is_hidden()
    for mode in ("projector", "dark projector"):
        change(tab, "projector" if "dark" in mode else "light", mode)
        tab.wait_for_function("() => document.querySelector('.lens-code img').naturalWidth > 0")
        assert complaints(tab, MODES[mode]) == []
    drawn = tab.request.get(str(tab.get_attribute(".lens-code img", "src"))).text()
    assert drawn.count("M4 4.5h7") == 1, "the corner of a code, behind four modules of white"
    assert drawn == tab.request.get(served.url + "code.svg?" + urlencode({"link": tab.url})).text()
    tab.click(".lens-code")
    assert tab.locator(".lens-code").is_hidden()
    assert tab.request.get(served.url + "code.svg?link=" + "x" * 601).status == 422


def test_what_is_done_while_the_page_loads_stays(served: Any, tab: Page) -> None:
    held = list[Any]()
    tab.route(re.compile("lens.*[.]js"), lambda route: held.append(route))
    tab.goto(served.url)
    tab.fill("#prompt textarea", "typed early")
    tab.click("#tab-learn-button")
    for route in held:
        route.continue_()
    tab.unroute_all()
    tab.wait_for_selector(".lens-begun", state="attached")
    prompt_is(tab, "typed early")
    wait_selected(tab, "learn")
    wait_names(tab, "tab", "learn")
