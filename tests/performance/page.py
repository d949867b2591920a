"""`python -m tests.performance.page`: how soon the app and its page are there, and what drawing a run costs.

Run it alone on an idle machine: browser, app and models share its cores.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.performance.served import browser, resident_megabytes, served

LONGEST_TASK_MS = 50.0
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


def opened(tab: Page, url: str) -> float:
    """Load the page and wait until it can be used; seconds."""
    began = time.monotonic()
    tab.goto(url)
    tab.wait_for_selector("#run:enabled")
    tab.wait_for_function("document.querySelector('#prompt textarea').value.length > 0")
    return time.monotonic() - began


def run(tab: Page) -> tuple[float, list[float]]:
    """Press Run and wait for the end: seconds to the last picture, and the milliseconds of long tasks on the way."""
    began, ended = tab.evaluate(_RUN)
    tab.wait_for_selector("#run:enabled")
    tab.wait_for_timeout(300)
    tasks = [length for start, length in tab.evaluate("window.lensTasks") if began <= start <= ended]
    return (ended - began) / 1000, tasks


def heap_megabytes(developer: CDPSession) -> float:
    """Memory of the page's scripts, after a collection."""
    developer.send("HeapProfiler.collectGarbage")
    metrics = developer.send("Performance.getMetrics")["metrics"]
    return float({metric["name"]: metric["value"] for metric in metrics}["JSHeapUsedSize"]) / 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a task of the page was too long."""
    command = argparse.ArgumentParser(
        prog="python -m tests.performance.page",
        description=__doc__,
        epilog="Further options are those of python -m app.",
    )
    command.add_argument("--tokens", type=int, default=512, metavar="N", help="the length limit of a lane (512)")
    command.add_argument("--runs", type=int, default=20, metavar="N", help="runs of the page (20)")
    options, for_the_app = command.parse_known_args(arguments)
    began = time.monotonic()
    with served(for_the_app) as (url, pid), sync_playwright() as playwright:
        up = time.monotonic() - began
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": 1440, "height": 900})
        tab.set_default_timeout(PATIENCE_MS)
        tab.add_init_script(_WATCH)
        developer = tab.context.new_cdp_session(tab)
        developer.send("Performance.enable")
        usable = opened(tab, url)
        tab.wait_for_selector("[data-state=idle]")
        ready = time.monotonic() - began
        tab.evaluate("document.documentElement.classList.add('lens-settings-open')")
        tab.fill("#limit input", str(options.tokens))
        tab.keyboard.press("Tab")
        run(tab)  # the first has much to load
        before = heap_megabytes(developer)
        found = [run(tab) for _ in range(options.runs)]
        after, resident = heap_megabytes(developer), resident_megabytes(pid)
        chromium.close()
    tasks = [length for _, long in found for length in long if length > LONGEST_TASK_MS]
    seconds = statistics.median(seconds for seconds, _ in found)
    sys.stdout.write(
        f"address after {up:.1f} s, page usable {usable:.2f} s after the request, ready after {ready:.1f} s\n"
        f"{len(found)} runs: {seconds:.2f} s from the click to the last picture (median)\n"
        f"tasks over {LONGEST_TASK_MS:.0f} ms in them: {len(tasks)}, longest {max(tasks, default=0):.0f} ms\n"
        f"page's memory {before:.1f} MB before the runs, {after:.1f} MB after them; the app's: {resident:.0f} MB\n"
    )
    return 1 if tasks else 0


if __name__ == "__main__":
    sys.exit(main())
