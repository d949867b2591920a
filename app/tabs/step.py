"""Step through: a finished, loaded or shipped run, pass by pass. The browser draws it; Python reads what comes in.

What the tab asks travels as an event, and the answer as its component's value, under the same ticket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gradio as gr

from app.browser import bundle
from app.runs import replay as replays
from app.runs.run import MAX_BYTES, RunFileError, read, to_json
from app.runs.shared import SharedRuns
from app.runs.shipped import shipped
from app.tabs.parts import QUIET


def keeper() -> gr.HTML:
    """The component that keeps the runs in the browser. It comes before all tabs: a tab is built when first opened."""
    return gr.HTML(
        html_template='<div class="lens-keeper"></div>',
        js_on_load=bundle.mount("runs"),
        apply_default_css=False,
        elem_classes="lens-kept",
    )


def build(shared: SharedRuns | None = None) -> None:
    """Lay out the tab inside the current Blocks; `shared` has the runs that visitors saved on the server."""
    offers = [
        {"name": name, "title": run.title, "note": run.note, "lanes": ", ".join(lane.title for lane in run.lanes)}
        for name, run in shipped().items()
    ]
    view = gr.HTML(
        html_template='<div class="step"></div>',
        js_on_load=bundle.mount("step"),
        apply_default_css=False,
        elem_id="step",
        shipped=offers,
        largest=MAX_BYTES,
    )

    def answered(event: gr.EventData) -> str:
        text = json.dumps(answer(event._data, shared), separators=(",", ":"), ensure_ascii=False)
        return text.replace("<", "\\u003c")  # so that nothing in it looks like a tag

    view.submit(answered, None, view, **QUIET)


def read_run(text: str) -> dict[str, Any]:
    """The run in a file's text, checked; or why it is refused."""
    return {"run": to_json(read(text))}


def shipped_run(name: str) -> dict[str, Any]:
    """A run that comes with the app, by its name."""
    run = shipped().get(name)
    return {"run": to_json(run)} if run else {"problem": "There is no such run; choose one of the list."}


def replay(text: str, lane: object = None, number: object = None) -> dict[str, Any]:
    """A run as a page of its own, which opens at this lane and pass; or why it is refused."""
    place = replays.Place(
        lane=lane if isinstance(lane, str) else None, number=number if isinstance(number, int) else None
    )
    return {"page": replays.page(read(text), place)}


def shared_run(name: str, shared: SharedRuns | None) -> dict[str, Any]:
    """A run that a visitor saved, by its name."""
    run = shared.find(name) if shared else None
    days = f" after {shared.days} days" if shared else ""
    gone = f"This run is not on the server. Saved runs are deleted{days}."
    return {"run": to_json(run)} if run else {"problem": gone}


ANSWERS: dict[str, Callable[[str], dict[str, Any]]] = {"read": read_run, "shipped": shipped_run}


def answer(question: object, shared: SharedRuns | None = None) -> dict[str, Any]:
    """The answer to {"ask": …, "text": …, "ticket": …}: never an exception.

    It asks for one of `ANSWERS`, a "shared" run, or a "replay" that opens at a "lane" and a pass of this "number".
    """
    found = question if isinstance(question, dict) else {}
    ask, text, ticket = found.get("ask"), found.get("text"), found.get("ticket")
    reply: dict[str, Any] = {"problem": "The page asked for something that does not exist. Reload it."}
    if isinstance(ask, str) and isinstance(text, str):
        try:
            if ask in ANSWERS:
                reply = ANSWERS[ask](text)
            elif ask == "replay":
                reply = replay(text, found.get("lane"), found.get("number"))
            elif ask == "shared":
                reply = shared_run(text, shared)
        except RunFileError as error:
            reply = {"problem": str(error)}
    return {"ticket": ticket if isinstance(ticket, int) else None, **reply}
