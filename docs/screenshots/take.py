"""Take the README's screenshot: a finished run on the shipped checkpoints, in a headless Chromium.

python docs/screenshots/take.py [OPTIONS OF python -m app]

writes compare.png beside this file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent
SIZE = {"width": 1280, "height": 830}


def take(url: str, chromium: str) -> None:
    """Open the page at `url`, run its first example at full speed, and save the picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE, device_scale_factor=1.5, color_scheme="light", reduced_motion="reduce")
        tab.set_default_timeout(120_000)
        tab.goto(url)
        tab.wait_for_selector("[data-state=idle]")
        tab.locator("#pace label", has_text="Full speed").click()
        tab.click("#run")
        tab.wait_for_selector("[data-state=done]")
        tab.wait_for_selector("#run:enabled")
        tab.evaluate("window.scrollTo(0, 0)")
        tab.mouse.move(0, 0)
        tab.screenshot(path=FOLDER / "compare.png")
        browser.close()


def main() -> int:
    """Start the app, take the picture, stop the app; the exit status."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write("no Chromium on this machine: install Debian's package chromium\n")
        return 1
    command = [sys.executable, "-m", "app", *sys.argv[1:]]
    with subprocess.Popen(command, cwd=FOLDER.parents[1], text=True, stdout=subprocess.PIPE) as app:
        try:
            words = app.stdout.readline().split() if app.stdout else []
            if not words:
                return 1
            take(words[-1], chromium)
        finally:
            app.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
