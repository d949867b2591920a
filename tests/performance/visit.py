"""A page in Chromium, watched while it streams: its long tasks, its memory, and how soon it can be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.performance.served import browser

PATIENCE_MS = 300_000
_WATCH = """
window.lensTasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.lensTasks.push([entry.startTime, entry.duration]);
}).observe({ type: "longtask", buffered: true });
"""
# Waits for an event: what looks at the page again and again would be measured with it.
_RUN = """() => new Promise((resolve) => {
  const stage = document.querySelector("#stage [data-state]");
  const began = performance.now();
  let started = false;
  new MutationObserver((_, observer) => {
    started ||= stage.dataset.state !== "done";
    if (!started || stage.dataset.state !== "done") return;
    observer.disconnect();
    resolve([began, performance.now()]);
  }).observe(stage, { attributes: true, attributeFilter: ["data-state"] });
  document.querySelector("#run").click();
})"""
# What a frame calls must not look like a clock of Gradio's, which the page slows down (app/browser/page.js).
_FIGURE = """() => new Promise((resolve) => {
  const began = performance.now();
  const end = () => resolve((performance.now() - began) / 1000);
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".trade[data-ready][data-state=shown]")) return;
    observer.disconnect();
    requestAnimationFrame(() => end());
  }).observe(document.body, { attributes: true, childList: true, subtree: true });
  document.querySelector("#tab-tradeoffs-button").click();
})"""
LAST_RUN = "JSON.stringify(lens.keeper.open(lens.keeper.newest.id).run)"


@dataclass(frozen=True, slots=True)
class Streamed:
    """One run as the page saw it: seconds from the click to the last picture, its long tasks (ms), its document."""

    seconds: float
    long_tasks: list[float]
    document: dict[str, Any]


class Visit:
    """One page at `url`, with a wide window."""

    def __init__(self, tab: Page, developer: CDPSession) -> None:
        self._tab = tab
        self._developer = developer

    def open(self, url: str) -> float:
        """Load the page and wait until it can be used; seconds."""
        began = self._now()
        self._tab.goto(url)
        self._tab.wait_for_selector("#run:enabled")
        self._tab.wait_for_selector(".lens-lane", state="attached")
        self._tab.wait_for_function("document.querySelector('#prompt textarea').value.length > 0")
        return self._now() - began

    def ready(self) -> None:
        """Wait until the lanes have their checkpoints."""
        self._tab.wait_for_selector("[data-state=idle]")

    def first_figure(self) -> float:
        """Seconds from the click on Trade-offs to its figure; then back to Compare."""
        seconds = float(self._tab.evaluate(_FIGURE))
        self._tab.click("#tab-compare-button")
        return seconds

    def set_up(self, tokens: int, pace: str = "Real time") -> None:
        """Lanes with this length limit, at a pace of the page."""
        self._tab.evaluate("document.documentElement.classList.add('lens-settings-open')")
        self._tab.locator("#pace label", has_text=pace).click()
        self._tab.fill("#limit input", str(tokens))
        self._tab.keyboard.press("Tab")

    def run(self) -> Streamed:
        """Press Run and wait for the end."""
        tab = self._tab
        size = "lens.keeper.runs.size"
        before = tab.evaluate(size)
        began, ended = tab.evaluate(_RUN)
        tab.wait_for_function(f"{size} > {before} || {size} === 12")
        tab.wait_for_selector("#run:enabled")
        tab.wait_for_timeout(300)
        tasks = [length for start, length in tab.evaluate("window.lensTasks") if began <= start <= ended]
        return Streamed((ended - began) / 1000, tasks, json.loads(tab.evaluate(LAST_RUN)))

    def heap_megabytes(self) -> float:
        """Memory of the page's scripts, after a collection."""
        self._developer.send("HeapProfiler.collectGarbage")
        metrics = self._developer.send("Performance.getMetrics")["metrics"]
        return float({metric["name"]: metric["value"] for metric in metrics}["JSHeapUsedSize"]) / 2**20

    def _now(self) -> float:
        return float(self._tab.evaluate("Date.now()")) / 1000


@contextmanager
def visit(width: int = 1440) -> Iterator[Visit]:
    """A Chromium with one empty page."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": width, "height": 900})
        tab.set_default_timeout(PATIENCE_MS)
        tab.add_init_script(_WATCH)
        developer = tab.context.new_cdp_session(tab)
        developer.send("Performance.enable")
        yield Visit(tab, developer)
        chromium.close()
