"""Trade-offs: the measured runs as figures, and visitors who come while you watch. The browser draws both.

Python selects the runs and answers. A question of the figures is an event; the answers are the component's value under
the ticket of the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app.browser import bundle
from app.compare import stream
from app.compare.runner import Runner
from app.models.pairs import Pair
from app.tabs.parts import QUIET, drawn, refusal
from app.tabs.question import prompts
from app.tradeoffs.answers import RequestHandler
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.visitors import LEAST, MOST, USUAL, Rate, Visitors
from mars.schema import checked


def build(page: gr.Blocks, runner: Runner) -> None:
    """Lay out the tab inside `page`, for the runs of `assets/runs`; its first figure is drawn in advance."""
    handler = RequestHandler(RunCache(), runner)
    view = drawn("tradeoffs", '<div class="trade"></div>', elem_id="tradeoffs", plotly=bundle.plotly())

    def answer(event: gr.EventData, request: gr.Request) -> Iterator[str]:
        yield from handler.answer(event._data, str(request.session_hash))

    page.load(handler.warm, **QUIET)
    # The next question may come before Gradio has closed the books on the one before.
    view.submit(answer, None, view, concurrency_limit=None, trigger_mode="multiple", **QUIET)


def build_visitors(runner: Runner, pair: Pair) -> None:
    """Lay out the section inside the current Blocks; the visitors put the examples of `pair` to its MARS checkpoint."""
    visitors = Visitors(runner, pair.mars, prompts(pair))
    rates = {"least": LEAST, "most": MOST, "usual": USUAL}
    template = '<section class="visitors"></section>'
    view = drawn("visitors", template, elem_id="visitors", rates=rates, model=pair.mars)

    def answer(event: gr.EventData, request: gr.Request) -> Any:
        return handle(visitors, event._data, str(request.session_hash))

    # A change of the rate may come before the last one is answered.
    view.submit(answer, None, view, queue=False, trigger_mode="multiple", **QUIET)


def handle(visitors: Visitors, message: object, session: str) -> Any:
    """The value of the view after {"ask": "start", "turn" or "stop", "rate": visitors a second} from the page.

    It names the run that starts, or says why none does.
    """
    found = message if isinstance(message, dict) else {}
    ask = found.get("ask")
    try:
        rate = checked(Rate, found.get("rate", USUAL), "The number of visitors")
        if ask == "start":
            return stream.line(stream.follow(visitors.start(session, rate)))
    except ValueError as error:
        return refusal(error)
    if ask == "turn":
        visitors.set_rate(session, rate)
    elif ask == "stop":
        visitors.stop(session)
    return gr.skip()
