"""A run as one HTML file: the Step-through view with scripts, styles and the run inside; no server, no network.

The page's own policy allows only the scripts written here and no fetches at all.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from app.browser import bundle
from app.runs.run import Run, RunFileError, RunLane, read, to_json, token_ids
from app.runs.what_if import tables
from mars.records import RowPass

LARGEST = 850_000
"""Bytes of the run in a replay: with scripts and styles the page stays below a megabyte."""

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
<button type="button" class="lens-tool lens-theme">Dark</button></header>
<main class="step"{place}><div class="step-body"></div></main>
<noscript>This replay draws itself with a script inside this file; allow scripts to see it.</noscript>
<script type="application/json" id="run">{run}</script>
<script type="application/json" id="what-if">{what_if}</script>
{decoders}
<script>{script}</script>
</body>
</html>
"""


def page(run: Run, lane: object = None, number: object = None) -> str:
    """The file for `run`, which opens at the pass `number` of the lane of this key, if the run has that lane.

    Text of people and models is in it only escaped, or as JSON without `<`. For a long run, alternatives are left out
    until the run is below `LARGEST`.
    """
    place = f' data-lane="{lane}"' if lane in [each.key for each in run.lanes] else ""
    place += f' data-number="{number}"' if place and isinstance(number, int) else ""
    script = bundle.script("step/replay.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.format(
        hash=f"'sha256-{digest}'",
        title=html.escape(run.title or "MARS Lens replay"),
        about=html.escape(f"A recorded run, pass by pass · {run.date[:10]} · MARS Lens"),
        styles=bundle.styles("step/replay.css"),
        run=_fitting(run),
        what_if=tables(run),
        place=place,
        decoders=bundle.decoder_table(),
        script=script,
    )


def _fitting(run: Run) -> str:
    """The run as JSON, with as many alternatives of each proposal as there is room for."""
    texts = list(map(to_json, thinner(run)))
    return next((text for text in texts if len(text.encode()) <= LARGEST), texts[-1])


def thinner(run: Run) -> Iterator[Run]:
    """The run, and then with ever fewer alternatives of each proposal."""
    yield run
    for most in (3, 1, 0):
        yield replace(run, lanes=tuple(_with_alternatives(lane, most) for lane in run.lanes))


def _with_alternatives(lane: RunLane, most: int) -> RunLane:
    def cut(row: RowPass) -> RowPass:
        return replace(
            row, proposals=tuple(replace(one, alternatives=one.alternatives[:most]) for one in row.proposals)
        )

    records = tuple(replace(record, rows=tuple(map(cut, record.rows))) for record in lane.records)
    return replace(lane, records=records, pieces={token: lane.pieces[token] for token in token_ids(records)})


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
