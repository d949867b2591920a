"""The browser-side files of the page, read from the package; nothing comes from elsewhere."""

from __future__ import annotations

from pathlib import Path

BROWSER = Path(__file__).parent / "browser"
STYLES = tuple(
    f"{name}.css"
    for name in "palette page controls lane-controls stage lanes counters history tokens ghosts card legend tabs".split()
)
STAGE_SCRIPTS = tuple(
    f"{name}.js"
    for name in (
        "dom beat token token-reasons card lane-pass lane-histogram lane-counters lane-history lane tip legend pointer "
        "news stage"
    ).split()
)
VIEW_STYLES = tuple(
    f"{name}.css" for name in "step step-panel step-window step-proposals step-matrix step-phone".split()
)
VIEW_SCRIPTS = (
    "token.js",
    *(f"step-{name}.js" for name in "states columns whatif lane matrix window card passage player trial view".split()),
)
"""What steps through a run, in the page and in a replay; after `dom.js`."""
SHELF_SCRIPTS = ("remember.js", "step-line.js", "step-shelf.js", "step.js")
"""What chooses the run in the page; after `VIEW_SCRIPTS`."""
READING_STYLES = ("prose.css", "learn.css", "learn-stage.css")


def styles(*names: str) -> str:
    """These style sheets, or all of the page, as one."""
    chosen = names or (*STYLES, *VIEW_STYLES, *READING_STYLES)
    return "\n".join((BROWSER / name).read_text(encoding="utf-8") for name in chosen)


def script(*names: str) -> str:
    """Scripts joined into the body of one function, as `gr.HTML(js_on_load=...)` wants it."""
    return "\n".join((BROWSER / name).read_text(encoding="utf-8") for name in names)
