"""Under load, live: visitors per second as a slider, and two lanes that answer them. The browser draws them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import gradio as gr

from app.compare.runner import Runner
from app.models.pairs import Pair
from app.tabs.models import prompts
from app.tabs.parts import QUIET, drawn
from app.tradeoffs.visitors import LEAST, MOST, USUAL, Rate, Visitors
from mars.schema import checked


def build(runner: Runner, pair: Pair) -> None:
    """Lay out the section inside the current Blocks; the visitors put the examples of `pair` to its MARS checkpoint."""
    visitors = Visitors(runner, pair.mars, prompts(pair))
    rates = {"least": LEAST, "most": MOST, "usual": USUAL}
    template = '<section class="visitors"></section>'
    view = drawn("visitors", template, elem_id="visitors", rates=rates, model=pair.mars)

    def answer(event: gr.EventData, request: gr.Request) -> Iterator[Any]:
        yield from handle(visitors, event._data, str(request.session_hash))

    # A change of the rate comes while the run goes on.
    view.submit(answer, None, view, concurrency_limit=None, trigger_mode="multiple", **QUIET)


def handle(visitors: Visitors, message: object, session: str) -> Iterator[Any]:
    """Values of the view for a question of the page: {"ask": "start", "turn" or "stop", "rate": visitors a second}."""
    found = message if isinstance(message, dict) else {}
    try:
        rate = checked(Rate, found.get("rate", USUAL), "The number of visitors")
    except ValueError as error:
        yield json.dumps({"run": uuid4().hex, "state": "failed", "sentence": f"{error}.", "lanes": {}})
        return
    if found.get("ask") == "start":
        identity = uuid4().hex
        for now in visitors.run(session, identity, rate):
            yield json.dumps(now)
        return
    if found.get("ask") == "turn":
        visitors.set_rate(session, rate)
    elif found.get("ask") == "stop":
        visitors.stop(session)
    yield gr.skip()
