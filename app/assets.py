"""The browser-side files of the page, read from the package; nothing comes from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

BROWSER = Path(__file__).parent / "browser"
STYLES = tuple(
    f"{name}.css"
    for name in (
        "palette page controls lane-controls stage lanes counters history tokens ghosts card legend tabs"
    ).split()
)
STAGE_SCRIPTS = tuple(
    f"{name}.js"
    for name in (
        "dom hover lines feed beat token token-reasons card lane-pass lane-histogram lane-counters lane-history "
        "lane-ghosts lane tip legend pointer news stage"
    ).split()
)
VIEW_STYLES = tuple(
    f"{name}.css" for name in "step step-panel step-window step-proposals step-matrix step-phone".split()
)
VIEW_SCRIPTS = (
    "token.js",
    *(
        f"step-{name}.js"
        for name in "states blocks columns whatif lane matrix window card passage player trial view".split()
    ),
)
"""What steps through a run, in the page and in a replay; after `dom.js`."""
SHELF_SCRIPTS = ("offer.js", "remember.js", "step-line.js", "step-shelf.js", "address-step.js", "step.js")
"""What chooses the run in the page; after `VIEW_SCRIPTS`."""
BOARD_STYLES = ("board.css", "board-table.css", "board-grid.css")
_BOARD_PARTS = (f"board-{part}.js" for part in "model files table grid problem".split())
BOARD_SCRIPTS = ("dom.js", "lines.js", "offer.js", *_BOARD_PARTS, "board.js")
TRADE_STYLES = tuple(f"{name}.css" for name in "trade trade-stage trade-filters trade-card trade-table".split())
_TRADE_PARTS = "line plotly address live plot filters table samples card controls view".split()
TRADE_SCRIPTS = ("dom.js", "offer.js", *(f"trade-{part}.js" for part in _TRADE_PARTS), "trade.js")
READING_STYLES = ("prose.css", "learn.css", "learn-stage.css")
FRAME_STYLES = ("masthead.css", "modes.css", "projector.css")
"""What stands above the tabs, and what holds over all other styles."""
_TYPE = re.compile(r"(?<![\w-])(font(?:-size)?:)([^;{}]*)")
_SIZE = re.compile(r"(?<![\w.-])[\d.]+(?:px|vw)\b")


def styles(*names: str) -> str:
    """These style sheets, or all of the page, as one, with every size of type times `--lens-type` (projector.css)."""
    chosen = names or (*STYLES, *VIEW_STYLES, *BOARD_STYLES, *TRADE_STYLES, *READING_STYLES, *FRAME_STYLES)
    text = "\n".join((BROWSER / name).read_text(encoding="utf-8") for name in chosen)
    return _TYPE.sub(lambda found: found[1] + _SIZE.sub(r"calc(\g<0> * var(--lens-type, 1))", found[2]), text)


def script(*names: str) -> str:
    """Scripts joined into the body of one function, as `gr.HTML(js_on_load=...)` wants it."""
    return "\n".join((BROWSER / name).read_text(encoding="utf-8") for name in names)
