"""Saves a finished run on the server when a reader asks for a link to it; does nothing without a folder to save it in.

The browser sends only the id of a run of its own session, which the server still has. The question is an event, the
answer is the component's value under the same ticket.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.runs.run import Run
from app.runs.shared import SharedRuns
from app.tabs.parts import QUIET, drawn

GONE = "The server no longer has this run. Run it again to share it."


def build(history: gr.State, shared: SharedRuns | None) -> None:
    """The component that the browser asks, in the current Blocks; `history` are the finished runs of the session."""
    days = shared.days if shared else 0
    asker = drawn("sharing", '<div class="lens-keeper"></div>', elem_classes="lens-kept", days=days)

    def share(runs: list[Run], event: gr.EventData) -> str:
        return json.dumps(answer(event._data, runs, shared)).replace("<", "\\u003c")

    asker.submit(share, history, asker, **QUIET)


def answer(question: object, history: Sequence[Run], shared: SharedRuns | None) -> dict[str, Any]:
    """The answer to {"ask": "share", "text": id of a run, "ticket": …}: its `name`, or a `problem`."""
    found = question if isinstance(question, dict) else {}
    ticket = found.get("ticket")
    told: dict[str, Any] = {"ticket": ticket if isinstance(ticket, int) else None}
    run = next((each for each in history if each.id == found.get("text")), None)
    if shared is None or run is None:
        return {**told, "problem": GONE if shared else "This server saves no runs."}
    try:
        return {**told, "name": shared.keep(run)}
    except ValueError as error:
        return {**told, "problem": str(error)}
