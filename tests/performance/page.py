"""`python -m tests.performance.page`: how soon the app and its page are there, and how long a run takes.

Run it alone on an idle machine: browser, app and models share its cores.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

from playwright.sync_api import Page, sync_playwright

from tests.performance.served import browser, served

PATIENCE_MS = 300_000
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


def run(tab: Page) -> float:
    """Press Run and wait for the end: seconds to the last picture."""
    began, ended = tab.evaluate(_RUN)
    tab.wait_for_selector("#run:enabled")
    return float(ended - began) / 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    command = argparse.ArgumentParser(
        prog="python -m tests.performance.page",
        description=__doc__,
        epilog="Further options are those of python -m app.",
    )
    command.add_argument("--tokens", type=int, default=512, metavar="N", help="the length limit of a lane (512)")
    command.add_argument("--runs", type=int, default=20, metavar="N", help="runs of the page (20)")
    options, for_the_app = command.parse_known_args(arguments)
    began = time.monotonic()
    with served(for_the_app) as url, sync_playwright() as playwright:
        up = time.monotonic() - began
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": 1440, "height": 900})
        tab.set_default_timeout(PATIENCE_MS)
        usable = opened(tab, url)
        tab.wait_for_selector("[data-state=idle]")
        ready = time.monotonic() - began
        tab.evaluate("document.documentElement.classList.add('lens-settings-open')")
        tab.fill("#limit input", str(options.tokens))
        tab.keyboard.press("Tab")
        run(tab)  # the first has much to load
        found = [run(tab) for _ in range(options.runs)]
        chromium.close()
    sys.stdout.write(
        f"address after {up:.1f} s, page usable {usable:.2f} s after the request, ready after {ready:.1f} s\n"
        f"{len(found)} runs: {statistics.median(found):.2f} s from the click to the last picture (median)\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
