"""Step through: a finished, loaded or shipped run, pass by pass. The browser draws it; Python checks what comes in."""

from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

from app import site
from app.models.sentences import answered
from app.runs.run import MAX_BYTES, Run, read, shipped
from app.tabs.parts import QUIET, drawn
from mars.schema import as_json


def keeper() -> gr.HTML:
    """The component that keeps the runs in the browser. It comes before all tabs: a tab is built when first opened."""
    return drawn("runs", '<div class="lens-keeper"></div>', elem_classes="lens-kept")


def build() -> None:
    view = drawn("step", '<div class="step"></div>', elem_id="step", shipped=offers(shipped()), largest=MAX_BYTES)
    view.submit(_told, None, view, **QUIET)


def offers(runs: Mapping[str, Run]) -> list[dict[str, str]]:
    """What the tab says of the runs that one can choose, by their names."""
    return [
        {"name": name, "title": run.title, "note": run.note, "lanes": ", ".join(lane.title for lane in run.lanes)}
        for name, run in runs.items()
    ]


def _told(event: gr.EventData) -> str:
    return as_json(answer(event._data))


def answer(question: object) -> dict[str, Any]:
    """The answer to {"ask": …, "text": …, "ticket": …}: never an exception.

    `ask` is "read" (check this file), "shipped" (the run of this name), or "page" (write one of this file, which opens
    at the pass of a `number` of a `lane`).
    """
    given = question.get("text") if isinstance(question, dict) else None
    text = given if isinstance(given, str) else ""
    asks: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "read": lambda _: {"run": as_json(read(text))},
        "shipped": lambda _: {"run": as_json(_shipped(text))},
        "page": lambda asked: {"page": site.part("page").single(read(text), asked.get("lane"), asked.get("number"))},
    }
    return answered(question, asks)


def _shipped(name: str) -> Run:
    if name in (runs := shipped()):
        return runs[name]
    raise ValueError("There is no such run; choose one from the list.")


def build_sharing() -> None:
    """The component that the browser asks, in the current Blocks, for a page of a run."""
    asker = drawn("sharing", '<div class="lens-keeper"></div>', elem_classes="lens-kept")
    asker.submit(_told, None, asker, **QUIET)
