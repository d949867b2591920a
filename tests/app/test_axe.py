"""axe-core, the checker of accessibility, over every tab in every mode: nothing serious or critical."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.app.driving import run

Visit = Callable[..., Page]
OpenTab = Callable[[Page, str], None]
pytestmark = pytest.mark.browser

# All rules once, and with Compare for the whole page; what a mode changes is colours (the usual dark's are in
# test_colours.py). For a projector they are held to the stricter contrast of WCAG's AAA.
MODES: dict[str, dict[str, Any]] = {
    "light": {},
    "projector": {"runOnly": ["color-contrast-enhanced"]},
    "dark projector": {"runOnly": ["color-contrast-enhanced"]},
}
SEVERE = ("serious", "critical")
RUN = """async ([within, options]) => {
    const told = { resultTypes: ["violations"], ...options };
    return (await axe.run(within ?? document, told)).violations;
}"""


def complaints(tab: Page, options: dict[str, Any], within: str | None = None) -> list[str]:
    """What axe finds that is serious or worse: rule, help, and each place; on the page, or within one of its parts."""
    if tab.evaluate("typeof axe === 'undefined'"):
        tab.evaluate(AXE_SCRIPT)
    return [
        f"{rule['impact']} {rule['id']}: {rule['help']}: {node['target']} {node['html'][:160]} {node['failureSummary']}"
        for rule in tab.evaluate(RUN, [within, options])
        if rule["impact"] in SEVERE
        for node in rule["nodes"]
    ]


def change(tab: Page, before: str, mode: str) -> None:
    """Press the buttons that lead from one mode to the other."""
    for name, button in (("dark", ".lens-theme"), ("projector", ".lens-projecting")):
        if (name in before) != (name in mode):
            tab.click(button)


def test_no_tab_has_a_serious_violation(site: Any, visit: Visit, open_tab: OpenTab) -> None:
    tab = visit(site.url)
    run(tab)
    names = tab.locator("#tabs [role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tabId)")
    assert names == ["compare", "step", "tradeoffs", "learn", "about"]
    found, last = [], "light"
    for mode in MODES:
        change(tab, last, mode)
        last = mode
        tab.click("#tab-compare-button")
        tab.locator("[data-lane=b] .lens-token").nth(3).hover()
        for name in names:
            open_tab(tab, name)
            part = None if name == "compare" else f"#tab-{name}"
            found += [f"{mode}, {name}: {complaint}" for complaint in complaints(tab, MODES[mode], part)]
        tab.keyboard.press("?")
        found += [f"{mode}, keys: {complaint}" for complaint in complaints(tab, MODES[mode], "dialog.lens-help")]
        tab.keyboard.press("Escape")
    assert found == []


def test_what_opens_is_accessible_too(site: Any, visit: Visit) -> None:
    tab = visit(site.url + "?tab=learn&nonsense=1")
    tab.wait_for_selector(".lens-refused span:not(:empty)")
    found = complaints(tab, MODES["light"])
    for entry in tab.locator(".lens-learn-entry").all():
        entry.click()
        found += complaints(tab, MODES["light"], "#tab-learn")
    assert found == []
    tab.evaluate("document.querySelector('.lens-masthead p').style.color = '#ddd'")
    assert any("color-contrast" in complaint for complaint in complaints(tab, MODES["light"])), "it finds what is wrong"
