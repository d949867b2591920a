"""Step through: a finished, loaded or shipped run, pass by pass. The browser draws it; Python reads what comes in.

What the tab asks travels as an event, and the answer as its component's value, under the same ticket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gradio as gr

from app import assets
from app.runs import replay as replays
from app.runs.reading import MAX_BYTES, RunFileError, read
from app.runs.run import Run, to_json
from app.runs.shipped import shipped
from app.tabs.parts import QUIET


def keeper() -> gr.HTML:
    """What holds the runs in the browser; it stands before all tabs, which are not there until they are looked at."""
    return gr.HTML(
        html_template='<div class="lens-keeper"></div>',
        js_on_load=assets.script("remember.js", "keeper.js"),
        apply_default_css=False,
        elem_classes="lens-kept",
    )


def keep(kept: gr.HTML, ended: Any, history: gr.State) -> None:
    """After the event `ended`, give the newest run of `history` to the keeper."""
    ended.then(_newest, history, kept, **QUIET)


def build() -> None:
    """Lay out the tab inside the current Blocks."""
    offers = [
        {"name": name, "title": run.title, "note": run.note, "lanes": ", ".join(lane.title for lane in run.lanes)}
        for name, run in shipped().items()
    ]
    view = gr.HTML(
        html_template='<div class="step"></div>',
        js_on_load=assets.script("dom.js", *assets.VIEW_SCRIPTS, *assets.SHELF_SCRIPTS),
        apply_default_css=False,
        elem_id="step",
        shipped=offers,
        largest=MAX_BYTES,
    )
    view.submit(_answer, None, view, **QUIET)


def read_run(text: str) -> dict[str, Any]:
    """The run in a file's text, checked; or why it is refused."""
    return {"run": to_json(read(text))}


def shipped_run(name: str) -> dict[str, Any]:
    """A run that comes with the app, by its name."""
    run = shipped().get(name)
    return {"run": to_json(run)} if run else {"problem": "There is no such run; choose one of the list."}


def replay(text: str) -> dict[str, Any]:
    """A run as a page of its own; or why it is refused."""
    return {"page": replays.page(read(text))}


ANSWERS: dict[str, Callable[[str], dict[str, Any]]] = {"read": read_run, "shipped": shipped_run, "replay": replay}


def answer(asked: object) -> dict[str, Any]:
    """What the page gets for {"ask": one of `ANSWERS`, "text": …, "ticket": …}: never an exception."""
    found = asked if isinstance(asked, dict) else {}
    ask, text, ticket = found.get("ask"), found.get("text"), found.get("ticket")
    reply: dict[str, Any] = {"problem": "The page asked for something that there is not; load it again."}
    if isinstance(ask, str) and ask in ANSWERS and isinstance(text, str):
        try:
            reply = ANSWERS[ask](text)
        except RunFileError as error:
            reply = {"problem": str(error)}
    return {"ticket": ticket if isinstance(ticket, int) else None, **reply}


def _answer(event: gr.EventData) -> str:
    text = json.dumps(answer(event._data), separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")  # so that nothing in it looks like a tag


def _newest(history: list[Run]) -> Any:
    return to_json(history[-1]) if history else gr.skip()
