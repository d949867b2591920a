"""Trade-offs: the measured runs as figures; the browser draws them, Python selects the runs and answers.

A question of the tab is an event; the answers are the component's value under the ticket of the question.
"""

from __future__ import annotations

from collections.abc import Iterator

import gradio as gr

from app.browser import scripts
from app.compare.runner import Runner
from app.tabs.parts import QUIET, drawn
from app.tradeoffs.answers import RequestHandler
from app.tradeoffs.run_cache import RunCache


def build(page: gr.Blocks, runner: Runner, run_cache: RunCache | None = None) -> None:
    """Lay out the tab inside `page`; the runs are those of `assets/runs` unless others are given.

    Its first figure is drawn in the background once a browser has the page.
    """
    handler = RequestHandler(run_cache or RunCache(), runner)
    view = drawn("tradeoffs", '<div class="trade"></div>', elem_id="tradeoffs", plotly=scripts.plotly())

    def answer(event: gr.EventData, request: gr.Request) -> Iterator[str]:
        yield from handler.answer(event._data, str(request.session_hash))

    page.load(handler.warm, **QUIET)
    # The next question may come before Gradio has closed the books on the one before.
    view.submit(answer, None, view, concurrency_limit=None, trigger_mode="multiple", **QUIET)
