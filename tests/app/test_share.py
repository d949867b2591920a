"""Sharing a run as a page that is one file: from Compare, and from Step through at the pass in view."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Download, Page

from tests.app.driving import run

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser


def opened(tab: Page, saved: Download, folder: Path) -> None:
    """Open the page that was saved."""
    path = folder / saved.suggested_filename
    saved.save_as(path)
    assert path.suffix == ".html"
    tab.goto(path.as_uri())


def test_a_shared_run_opens_where_one_looked(
    served: Any, visit: Visit, new_tab: Callable[[str], Page], tmp_path: Path
) -> None:
    tab = visit(served.url)
    run(tab)
    text = tab.locator(".lens-lane[data-lane=a] .lens-text").text_content()
    with tab.expect_download() as saved:
        tab.click(".lens-board .lens-share")
    other, wrong = new_tab(served.url), list[str]()
    other.context.set_offline(True)
    other.on("console", lambda message: wrong.append(message.text))
    other.on("pageerror", lambda error: wrong.append(str(error)))
    opened(other, saved.value, tmp_path)
    other.wait_for_selector("#stage [data-state=done]")
    assert other.locator("#stage .lens-lane").first.locator(".lens-text").text_content() == text
    assert other.locator(".lens-share:visible").count() == 0

    tab.click(".lens-step-through")
    tab.wait_for_selector(".step-column")
    tab.click(".step-lane[data-lane=a]")
    tab.keyboard.press("End")
    where = tab.inner_text(".step-where")
    with tab.expect_download() as saved:
        tab.click(".step-picker .lens-share")
    opened(other, saved.value, tmp_path)
    other.wait_for_selector(".step-column")
    assert other.inner_text(".step-where") == where
    assert other.locator(".step-lane[data-lane=a]").get_attribute("aria-pressed") == "true"
    assert wrong == []
    other.context.set_offline(False)
