"""Step through: a finished, loaded or shipped run, pass by pass. The browser draws it; Python checks what comes in.

A question of the tab is an event; the answer is the component's value under the same ticket. So is the wish for a link
to a finished run of the session, which the server then saves, if it has a folder for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio as gr

from app.runs.run import MAX_BYTES, Run, RunFileError, read, to_json
from app.runs.stored import SharedRuns, shipped
from app.scheduling import Sessions
from app.tabs.parts import QUIET, drawn
from mars.schema import as_json

WritePage = Callable[[Run, object, object], str]
"""The page of one run as a text, which opens at the pass of a number of the lane of a key."""
GONE = "The server no longer has this run. Run it again to share it."


def keeper() -> gr.HTML:
    """The component that keeps the runs in the browser. It comes before all tabs: a tab is built when first opened."""
    return drawn("runs", '<div class="lens-keeper"></div>', elem_classes="lens-kept")


def build(shared: SharedRuns | None = None) -> None:
    """Lay out the tab inside the current Blocks; `shared` has the runs that visitors saved on the server."""
    view = drawn("step", '<div class="step"></div>', elem_id="step", shipped=offers(shipped()), largest=MAX_BYTES)

    def answered(event: gr.EventData) -> str:
        return as_json(answer(event._data, shared))

    view.submit(answered, None, view, **QUIET)


def offers(runs: Mapping[str, Run]) -> list[dict[str, str]]:
    """What the tab says of the runs that one can choose, by their names."""
    return [
        {"name": name, "title": run.title, "note": run.note, "lanes": ", ".join(lane.title for lane in run.lanes)}
        for name, run in runs.items()
    ]


def answer(question: object, shared: SharedRuns | None = None) -> dict[str, Any]:
    """The answer to {"ask": …, "text": …, "ticket": …}: never an exception.

    `ask` is one of "read" (check this file), "shipped" and "shared" (the run of this name).
    """
    found = question if isinstance(question, dict) else {}
    ask, text, ticket = found.get("ask"), found.get("text"), found.get("ticket")
    asks: dict[object, Callable[[str], dict[str, Any]]] = {
        "read": lambda text: _run(read(text)),
        "shipped": lambda name: _run(shipped().get(name)),
        "shared": lambda name: _run(shared.find(name) if shared else None, _gone(shared)),
    }
    reply: dict[str, Any] = {"problem": "The page asked for something that does not exist. Reload it."}
    if isinstance(ask, str) and isinstance(text, str) and ask in asks:
        try:
            reply = asks[ask](text)
        except RunFileError as error:
            reply = {"problem": str(error)}
    return {"ticket": ticket if isinstance(ticket, int) else None, **reply}


def _run(run: Run | None, gone: str = "There is no such run; choose one from the list.") -> dict[str, Any]:
    return {"run": to_json(run)} if run else {"problem": gone}


def _gone(shared: SharedRuns | None) -> str:
    return f"This run is not on the server. Saved runs are deleted{f' after {shared.days} days' if shared else ''}."


def build_sharing(sessions: Sessions, shared: SharedRuns | None, write_page: WritePage | None = None) -> None:
    """The component that the browser asks, in the current Blocks, for a link to a run, or for a page of it."""
    thread = ThreadPoolExecutor(1, "page")  # of its own: in a handler Gradio's components are updates

    def write(run: Run, lane: object, number: object) -> str:
        if write_page is None:
            raise ValueError("This server writes no pages.")
        return thread.submit(write_page, run, lane, number).result()

    days = shared.days if shared else 0
    asker = drawn("sharing", '<div class="lens-keeper"></div>', elem_classes="lens-kept", days=days)

    def share(event: gr.EventData, request: gr.Request) -> str:
        return as_json(link(event._data, sessions.finished(str(request.session_hash)), shared, write))

    asker.submit(share, None, asker, **QUIET)


def link(question: object, history: Sequence[Run], shared: SharedRuns | None, write_page: WritePage) -> dict[str, Any]:
    """The answer to {"ask": "share", "text": id of a run, "ticket": …}: its `name`, or a `problem`.

    With "page" for "share" the text is a run, and the answer a `page`, which opens at a "lane" and the pass "number".
    """
    found = question if isinstance(question, dict) else {}
    ticket = found.get("ticket")
    told: dict[str, Any] = {"ticket": ticket if isinstance(ticket, int) else None}
    text = found.get("text")
    run = next((each for each in history if each.id == text), None)
    try:
        if found.get("ask") == "page" and isinstance(text, str):
            return {**told, "page": write_page(read(text), found.get("lane"), found.get("number"))}
        if shared is None or run is None:
            return {**told, "problem": GONE if shared else "This server saves no runs."}
        return {**told, "name": shared.keep(run)}
    except ValueError as error:
        return {**told, "problem": str(error)}
