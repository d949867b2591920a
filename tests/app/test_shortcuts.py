"""Keys in a real Chromium: each does what its line in the dialog says, and none acts while somebody types."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.driving import selected

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser

FOCUS = """() => {
    const node = document.activeElement;
    if (!node || node === document.body) return null;
    const marked = [getComputedStyle(node), getComputedStyle(node, '::after')];
    if (node.closest('label')) marked.push(getComputedStyle(node.closest('label')));
    // A slider shows it on its thumb, whose style no script can read.
    if (node.type === 'range') marked.push({ outlineStyle: 'thumb', outlineWidth: '2' });
    const seen = marked.some(style => style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2);
    const name = node.getAttribute('aria-label') ?? node.textContent.slice(0, 30);
    return { seen, what: `${node.tagName} ${node.id} ${node.className} ${name}` };
}"""


def tau(tab: Page) -> float:
    return float(tab.input_value("#threshold input[type=range]"))


@pytest.fixture(scope="module")
def still(site: Any, visit_once: Visit) -> Page:
    """A page on which no key has an effect that lasts, but those of the last test."""
    return visit_once(site.url)


def test_the_dialog_lists_keys_and_returns_focus(still: Page) -> None:
    tab = still
    tab.focus(".lens-keys")
    tab.keyboard.press("?")
    tab.wait_for_selector("dialog.lens-help[open]")
    listed = tab.locator(".lens-help kbd").all_inner_texts()
    assert {"?", "1", "t", "p", "l", "r", "n", "+", "−", "g", "Space"} <= set(listed)
    tab.keyboard.press("r")
    assert tab.locator("[data-state=idle]").count() == 1
    tab.keyboard.press("Escape")
    tab.wait_for_selector("dialog.lens-help", state="hidden")
    assert tab.evaluate("document.activeElement.matches('.lens-keys')")
    tab.click(".lens-keys")
    tab.wait_for_selector("dialog.lens-help[open]")
    tab.keyboard.press("Escape")


def test_keys_act_on_what_is_in_view(still: Page) -> None:
    tab = still
    names = tab.locator("#tabs [role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tabId)")
    for number, name in reversed(list(enumerate(names, start=1))):
        tab.keyboard.press(str(number))
        assert selected(tab) == name
    tab.keyboard.press("9")
    assert selected(tab) == names[0]
    tab.keyboard.press(str(names.index("learn") + 1))
    tab.wait_for_selector(".lens-learn-entry")
    before = tau(tab)
    for key in ("r", "n", "-"):
        tab.keyboard.press(key)
    tab.keyboard.press("1")
    assert tab.locator("[data-state=idle]").count() == 1
    assert tau(tab) == before


def test_no_key_acts_while_somebody_types(still: Page) -> None:
    tab = still
    for key in ("Control+?", "Alt+t", "Alt+p", "Meta+d"):  # those are the browser's
        tab.keyboard.press(key)
    assert tab.locator("dialog[open], body.dark, html.lens-projector").count() == 0
    for field in ("#prompt textarea", "#limit input", "#seed input"):  # the last draws another prompt
        if field == "#seed input":
            assert "?tplr5-+" in tab.input_value("#prompt textarea")
        tab.locator(field).first.focus()
        for key in "?tplr5-+":
            tab.keyboard.press(key)
    assert selected(tab) == "compare"
    assert tab.locator("dialog[open], body.dark, html.lens-projector").count() == 0
    assert tab.locator("[data-state=idle]").count() == 1
    assert tau(tab) == 0.95


@pytest.mark.parametrize("name", ["compare", "step", "tradeoffs", "learn", "about"])
def test_the_focus_is_always_visible(still: Page, open_tab: Callable[[Page, str], None], name: str) -> None:
    tab = still
    open_tab(tab, name)
    tab.focus(".lens-link")
    reached, hidden = [], []
    for _ in range(120):
        tab.keyboard.press("Tab")
        focus = tab.evaluate(FOCUS)
        if focus is None:
            break
        reached.append(focus["what"])
        if not focus["seen"]:
            hidden.append(focus["what"])
    assert hidden == []
    assert len(reached) > 8


def test_keys_run_and_steer_until_switched_off(still: Page) -> None:
    tab = still
    tab.click("#tab-compare-button")
    tab.fill("#limit input", "64")
    tab.fill("#seed input", "3")
    tab.click("h1")
    before = tab.input_value("#prompt textarea")
    tab.keyboard.press("n")
    tab.wait_for_function("before => document.querySelector('#prompt textarea').value !== before", arg=before)
    tab.keyboard.press("-")
    assert tau(tab) == pytest.approx(0.94)
    tab.wait_for_function("document.querySelector('#threshold-reading strong').textContent === 'τ = 0.94'")
    tab.keyboard.press("+")
    tab.keyboard.press("+")
    assert tau(tab) == pytest.approx(0.96)
    tab.locator("#pace label", has_text="Slow").click()
    held = "new KeyboardEvent('keydown', { key: 'r', repeat: true, cancelable: true })"
    assert tab.evaluate(f"document.dispatchEvent({held})"), "one press that lasts is one run"
    tab.keyboard.press("r")
    tab.wait_for_selector("[data-state=running]")
    tab.wait_for_selector("#stop:enabled")
    tab.keyboard.press("r")
    tab.wait_for_selector("[data-state=stopped]")
    tab.click(".lens-keys")
    tab.locator(".lens-help-switch input").uncheck()
    tab.keyboard.press("Escape")
    tab.reload()
    tab.wait_for_selector("[data-state=idle]")
    tab.keyboard.press("p")
    tab.keyboard.press("?")
    assert tab.locator("dialog[open], html.lens-projector").count() == 0
    tab.click(".lens-keys")
    tab.locator(".lens-help-switch input").check()
    tab.keyboard.press("Escape")
    tab.keyboard.press("p")
    assert tab.locator("html.lens-projector").count() == 1
