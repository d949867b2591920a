"""A run as one HTML file: the Step-through view with scripts, styles and the run inside; no server, no network.

The page's own policy lets nothing run but the scripts written here, and nothing be fetched at all.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import sys
from collections.abc import Sequence
from pathlib import Path

from app import assets
from app.runs.reading import RunFileError, read
from app.runs.run import Run, to_json

_STYLES = (
    *("palette.css", "page.css", "masthead.css", "lanes.css", "tokens.css"),
    *assets.VIEW_STYLES,
    *("replay.css", "modes.css"),
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src {hash}">
<title>{title}</title>
<style>
{styles}
</style>
</head>
<body>
<header class="lens-masthead"><h1>{title}</h1><p>{about}</p>
<button type="button" class="lens-theme">Dark</button></header>
<main class="step"><div class="step-body"></div></main>
<noscript>This replay draws itself with a script inside this file; allow scripts to see it.</noscript>
<script type="application/json" id="run">{run}</script>
<script>{script}</script>
</body>
</html>
"""


def page(run: Run) -> str:
    """The file for `run`. What people and models wrote is in it only as escaped text and as JSON without `<`."""
    script = "\n(() => {\n" + assets.script("dom.js", *assets.VIEW_SCRIPTS, "replay.js") + "\n})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.format(
        hash=f"'sha256-{digest}'",
        title=html.escape(run.title or "MARS Lens replay"),
        about=html.escape(f"A recorded run, pass by pass · {run.date[:10]} · MARS Lens"),
        styles=assets.styles(*_STYLES),
        run=to_json(run),
        script=script,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m app.runs.replay RUN.json PAGE.html`; 0, or 2 for a file that is no run."""
    command = argparse.ArgumentParser(
        prog="python -m app.runs.replay",
        description="Write a saved run as one HTML file that needs no server and no network.",
    )
    command.add_argument("run", type=Path, metavar="RUN.json", help="a run saved in the page or by app.record")
    command.add_argument("page", type=Path, metavar="PAGE.html", help="where to write the replay")
    options = command.parse_args(arguments)
    try:
        options.page.write_text(page(read(options.run.read_bytes())), encoding="utf-8")
    except (OSError, RunFileError) as error:
        sys.stderr.write(f"app.runs.replay: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
