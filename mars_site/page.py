"""The one page of the export: what the tabs of the app lay out and no server answers, as HTML that the modules fill."""

import asyncio
import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import gradio as gr
from markdown_it import MarkdownIt

from app.browser import bundle
from app.models.pairs import REAL_SOURCES, TINY_SOURCES, Pair
from app.page import build
from app.runs.run import Run, RunLane, token_ids
from app.tabs import step
from mars.records import RowPass
from mars.schema import page_json
from mars_site import records

_PROSE = MarkdownIt("commonmark", {"html": False}).enable("table")
_FOLD = re.compile("<p>&lt;details&gt;\n&lt;summary&gt;(.*)&lt;/summary&gt;</p>")
"""How a part of a document begins that is folded away: the only tags in it, in a paragraph of their own."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'self'; form-action 'none'"
)
"""That of the app (app/server/policy.py) without what Gradio needs; Plotly sets styles."""
_ALONE = (
    "default-src 'none'; script-src {hash}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
LARGEST = 1_000_000
"""Bytes of a page that is one file."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>MARS Lens</title>
<link rel="icon" href="data:,">
{sheet}
</head>
<body>
<div class="gradio-container"><main class="contain">
{body}
<noscript>This page draws recorded runs with its own script; allow scripts to see them.</noscript>
</main></div>
<script type="application/json" id="lens-given">{given}</script>
{decoders}
{script}
</body>
</html>
"""
_COMPARE = """<div class="lens-controls"><div class="lens-prompt">
<div id="prompt"><textarea rows="2" readonly aria-label="Prompt of the recorded run"></textarea></div>
<div class="lens-row lens-examples" role="group" aria-label="Recorded answers to prompts"></div>
<div class="lens-row lens-examples" role="group" aria-label="Other recorded runs"></div>
{live}</div></div>"""
_LIVE = '<div class="lens-live lens-stack"></div>\n'


def page(live: Mapping[str, Any] | None = None) -> str:
    """The page of a folder, with sheet, script and data beside it; `live` is about its models (mars_site/live.py)."""
    sheet = '<link rel="stylesheet" href="lens.css">'
    return _page(records.runs(), _POLICY, sheet=sheet, script='<script src="lens.js" defer></script>', live=live)


def single(run: Run, lane: object = None, number: object = None) -> str:
    """The page as one file with this run alone, for a hand-out; ValueError if it is longer than `LARGEST` bytes.

    With the key of a `lane` it opens in Step through, at the pass of this `number`. Trade-offs are not in it: they
    explain no run. A long run is without some or all alternatives of its proposals.
    """
    script = bundle.script("mars_site/browser/shell.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = _ALONE.format(hash=f"'sha256-{digest}'")
    begin = {"run": run.id, "lane": lane, "number": number if isinstance(number, int) else None}
    place = begin if lane in [each.key for each in run.lanes] else None
    sheet, script = f"<style>\n{bundle.styles('mars_site/browser/shell.css')}</style>", f"<script>{script}</script>"
    for each in thinner(run):
        data = page_json(dict(records.run_files(each)))
        inside = f'<script type="application/json" id="lens-inside">{data}</script>\n'
        text = _page({each.id: each}, policy, sheet=sheet, script=inside + script, without=("tradeoffs",), begin=place)
        if len(text.encode()) <= LARGEST:
            return text
    raise ValueError(f"This run is too long for one page: {len(text.encode()):,} of at most {LARGEST:,} bytes.")


def _page(
    runs: Mapping[str, Run],
    policy: str,
    *,
    sheet: str,
    script: str,
    without: Sequence[str] = (),
    begin: Any = None,
    live: Mapping[str, Any] | None = None,
) -> str:
    blocks = _blocks()
    tabs = next(child for child in blocks.children if isinstance(child, gr.Tabs))
    props = {part.props["drawn"]: {**part.props, "value": part.value} for part in _drawn(blocks)}
    props["masthead"]["tabs"] = [name for name in props["masthead"]["tabs"] if name not in without]
    props["masthead"]["codes"] = None  # the server draws them
    props["step"]["shipped"] = step.offers(runs)
    props["tradeoffs"] |= {"plotly": "plotly.js", "points": records.budgets()}
    given = {
        "props": {name: props[name] for name in _KEPT if name not in without},
        "runs": records.offers(runs),
        "begin": begin,
        "live": live,
    }
    outside = [_html(child) for child in blocks.children if child is not tabs]
    return _PAGE.format(
        policy=policy,
        body="\n".join([outside[0], _tabs(tabs, without, _COMPARE.format(live=_LIVE if live else "")), *outside[1:]]),
        given=page_json(given),
        decoders=bundle.decoder_table(),
        sheet=sheet,
        script=script,
    )


@cache
def _blocks() -> gr.Blocks:
    async def built() -> gr.Blocks:
        with gr.Blocks():
            tiny = {lane: _name(source) for lane, source in TINY_SOURCES.items()}
            sources = [*TINY_SOURCES.values(), *REAL_SOURCES.values()]
            return build(
                records.runner({_name(source): source for source in sources}), [Pair(ar=tiny["ar"], mars=tiny["mars"])]
            )

    # Where no event loop runs, Gradio makes one for each event and closes none; in a handler, components are updates.
    return _elsewhere.submit(asyncio.run, built()).result()


_elsewhere = ThreadPoolExecutor(1, "page")


_KEPT = ("masthead", "runs", "sharing", "stage", "step", "tradeoffs", "course")
"""The components that need no server, by the names of `app/browser/page.js`."""


def _name(source: str) -> str:
    return source.rpartition("/")[2]


def _drawn(block: Any) -> Iterable[gr.HTML]:
    if isinstance(block, gr.HTML) and block.props.get("drawn") in _KEPT:
        yield block
    for child in getattr(block, "children", ()):
        yield from _drawn(child)


def _tabs(tabs: gr.Tabs, without: Sequence[str], compare: str) -> str:
    """The bar and the panels, with the names that the browser's modules look for; the first tab is open."""
    bar, panels = [], []
    for tab in tabs.children:
        if tab.id in without:
            continue
        about_it = {"role": "tab", "id": f"{tab.elem_id}-button", "data-tab-id": tab.id, "aria-controls": tab.elem_id}
        bar.append(_tag("button", html.escape(tab.label), type="button", **about_it))
        content = [_html(child) for child in tab.children]
        inside = _tag("div", "\n".join([compare, *content] if tab.id == "compare" else content), _class="column")
        labelled = {"id": tab.elem_id, "aria-labelledby": f"{tab.elem_id}-button"}
        panels.append(_tag("div", inside, _class="tabitem", role="tabpanel", **labelled))
    wrapper = _tag("div", _tag("div", "".join(bar), _class="tab-container", role="tablist"), _class="tab-wrapper")
    return _tag("div", "\n".join([wrapper, *panels]), id=tabs.elem_id)


def _html(block: Any) -> str:
    """A block and what is in it; nothing where that needs a server."""
    if isinstance(block, gr.HTML):
        name = block.props.get("drawn")
        return _tag("div", block.html_template, _of=block, data_drawn=name) if name in _KEPT else ""
    if isinstance(block, gr.Markdown):
        text = block.value or ""
        if not text:
            return ""
        prose = _FOLD.sub(r"<details>\n<summary>\1</summary>", _PROSE.render(text))
        prose = prose.replace("<p>&lt;/details&gt;</p>", "</details>")
        prose = prose.replace("<table>", '<table tabindex="0">')  # wide ones scroll, also by keys
        return _tag("div", prose, _of=block)
    inside = "\n".join(filter(None, map(_html, getattr(block, "children", ()))))
    if not inside:
        return ""
    if isinstance(block, gr.Accordion):
        return _tag("details", _tag("summary", html.escape(block.label), _class="label-wrap") + inside, _of=block)
    return _tag("div", inside, _of=block, _class="column" if isinstance(block, gr.Column) else "row")


def _tag(name: str, inside: str, *, _of: Any = None, _class: str = "", **attributes: Any) -> str:
    """An element; `_of` is the component whose name and classes it has."""
    classes = " ".join(filter(None, [_class, *(getattr(_of, "elem_classes", None) or ())]))
    named: Mapping[str, Any] = {"id": getattr(_of, "elem_id", None), "class": classes, **attributes}
    said = [f' {key.replace("_", "-")}="{html.escape(str(value))}"' for key, value in named.items() if value]
    return f"<{name}{''.join(said)}>{inside}</{name}>"


def thinner(run: Run) -> Iterator[Run]:
    """The run, and then with ever fewer alternatives of each proposal."""
    yield run
    for most in (3, 1, 0):
        yield replace(run, lanes=tuple(_with_alternatives(lane, most) for lane in run.lanes))


def _with_alternatives(lane: RunLane, most: int) -> RunLane:
    def cut(row: RowPass) -> RowPass:
        fewer = (replace(one, alternatives=one.alternatives[:most]) for one in row.proposals)
        return replace(row, proposals=tuple(fewer))

    records = tuple(replace(record, rows=tuple(map(cut, record.rows))) for record in lane.records)
    return replace(lane, records=records, pieces={token: lane.pieces[token] for token in token_ids(records)})
