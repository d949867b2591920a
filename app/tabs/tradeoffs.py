"""Trade-offs: what was measured, as figures; the browser draws them, Python selects and answers.

What the tab asks travels as an event, and the answers as its component's value, under the ticket of the question.
"""

from __future__ import annotations

from collections.abc import Iterator

import gradio as gr

from app import assets
from app.runner import Runner
from app.server.plotly import ADDRESS
from app.tabs.parts import QUIET
from app.tradeoffs.answers import Desk
from app.tradeoffs.library import Library


def build(runner: Runner, library: Library | None = None) -> None:
    """Lay out the tab inside the current Blocks; the runs are those of `assets/runs` unless others are given."""
    desk = Desk(library or Library(), runner)
    view = gr.HTML(
        html_template='<div class="trade"></div>',
        js_on_load=assets.script(*assets.TRADE_SCRIPTS),
        apply_default_css=False,
        elem_id="tradeoffs",
        plotly=ADDRESS,
    )

    def answer(event: gr.EventData, request: gr.Request) -> Iterator[str]:
        yield from desk.answer(event._data, str(request.session_hash))

    # The next question may come before Gradio has closed the books on the one before.
    view.submit(answer, None, view, concurrency_limit=None, trigger_mode="multiple", **QUIET)
