"""Take the pictures of the running app, in a headless Chromium: every tab, and Compare in more windows.

python docs/screenshots/take.py [OPTIONS OF python -m app]

writes TAB-wide-light.png and so on beside this file. `make screenshots` sets PYTHONPATH to the project's root.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.performance.served import browser, served

FOLDER = Path(__file__).parent
SIZES = {
    "wide": {"width": 1280, "height": 800},
    "phone": {"width": 390, "height": 844},
    "laptop": {"width": 1440, "height": 900},
    "projector": {"width": 1024, "height": 768},
}
SCHEMES = ("light", "dark")
COLOURS = 256
PATIENCE_MS = 180_000


def compare(tab: Page) -> None:
    """The recorded run, as everybody sees it first."""
    tab.wait_for_selector(".lens-recorded .lens-token", state="attached")


def compare_run(tab: Page) -> None:
    """A finished run of the first example, in real time."""
    tab.evaluate("document.documentElement.classList.add('lens-settings-open')")
    tab.locator("#pace label", has_text="Real time").click()
    tab.evaluate("document.documentElement.classList.remove('lens-settings-open')")
    tab.click("#run")
    tab.wait_for_selector("[data-state=done]", timeout=PATIENCE_MS)
    tab.wait_for_selector("#run:enabled")


def step(tab: Page) -> None:
    """The run that was just made, at a pass of its own."""
    _open(tab, "step")
    tab.wait_for_selector("#step .step-lane")


def tradeoffs(tab: Page) -> None:
    """The frontier of the cached runs."""
    _open(tab, "tradeoffs")
    tab.wait_for_selector("#panel-tradeoffs .plot-container, .js-plotly-plot", timeout=PATIENCE_MS)
    tab.wait_for_timeout(1500)


def learn(tab: Page) -> None:
    """The first page of the course."""
    _open(tab, "learn")
    tab.wait_for_selector("#learn h2, .learn h2")


def about(tab: Page) -> None:
    """The claims and the cards."""
    _open(tab, "about")
    tab.wait_for_selector("#about h2, .lens-prose h2")


TABS: dict[str, Callable[[Page], None]] = {
    "compare": compare,
    "compare-run": compare_run,
    "step": step,
    "tradeoffs": tradeoffs,
    "learn": learn,
    "about": about,
}


COMPARE = ("compare", "compare-run")
"""What is taken in the windows of a laptop and a projector."""


def _open(tab: Page, name: str) -> None:
    tab.evaluate("name => document.getElementById(`tab-${name}-button`).click()", name)


def take(chromium: Browser, url: str, size: str, scheme: str) -> None:
    """One visit, one picture of each tab."""
    tab = chromium.new_page(viewport=SIZES[size], device_scale_factor=1.5, color_scheme=scheme, reduced_motion="reduce")
    tab.goto(url)
    tab.wait_for_selector("[data-state=idle]", timeout=PATIENCE_MS)
    if size == "projector":
        tab.click(".lens-projecting")
    for name in TABS if size in ("wide", "phone") else COMPARE:
        TABS[name](tab)
        tab.evaluate("window.scrollTo(0, 0)")
        tab.mouse.move(0, 0)
        tab.wait_for_timeout(300)
        path = FOLDER / f"{name}-{size}-{scheme}.png"
        tab.screenshot(path=path)
        Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    tab.close()


def main() -> int:
    """Start the app, take the pictures, stop the app; the exit status."""
    with served(sys.argv[1:]) as url, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        for size in SIZES:
            for scheme in SCHEMES:
                take(chromium, url, size, scheme)
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
