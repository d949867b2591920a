"""The browser-side files of the page, read from the package; nothing comes from elsewhere."""

from __future__ import annotations

from pathlib import Path

BROWSER = Path(__file__).parent / "browser"
STYLES = ("palette.css", "page.css", "controls.css", "stage.css", "lanes.css", "tokens.css")
STAGE_SCRIPTS = ("dom.js", "card.js", "lane.js", "stage.js")


def styles() -> str:
    """All style sheets as one."""
    return "\n".join((BROWSER / name).read_text(encoding="utf-8") for name in STYLES)


def script(*names: str) -> str:
    """Scripts joined into the body of one function, as `gr.HTML(js_on_load=...)` wants it."""
    return "\n".join((BROWSER / name).read_text(encoding="utf-8") for name in names)
