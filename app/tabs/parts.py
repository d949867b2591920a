"""Small components and event options that tabs share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from uuid import uuid4

import gradio as gr

from app.browser import bundle
from app.compare import stream
from app.models.sentences import complete, in_words
from mars.checkpoint.calibration import Start

LOWEST, ONE_TOKEN = 0.5, 1.0
"""The ends of the slider."""
HIDDEN: Literal["hidden"] = "hidden"
"""For `visible`: in the page but not seen, so that it keeps its value."""
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
"""Events of the page alone, without Gradio's signs of progress.

One that sets many components names one of them with `show_progress_on` all the same: Gradio keeps a state of progress
for each component that was ever named, or set by an event that names none, and copies all of them at every event.
"""
LATEST: dict[str, Any] = {"trigger_mode": "always_last", **QUIET}
"""The same for what a person may change again at once: the last change counts, where Gradio would drop it."""


@contextmanager
def refusing() -> Iterator[None]:
    """Show the sentence of a ValueError to the person, and nothing of where it came from."""
    try:
        yield
    except ValueError as error:
        raise gr.Error(complete(str(error)), print_exception=False) from None


def drawn(name: str, template: str, value: str | None = None, **options: Any) -> gr.HTML:
    """A component that the browser draws: the function that page.js has under `name` fills the template."""
    script = bundle.mount(name)
    return gr.HTML(value, html_template=template, js_on_load=script, apply_default_css=False, drawn=name, **options)


def plain(elem_id: str, value: str = "", label: str = "", **options: Any) -> gr.HTML:
    """A labelled line of text that Python sets; it goes into the page as text, never as markup."""
    template = f'<p class="lens-line"><span>{label}</span><strong class="lens-plain"></strong></p>'
    return drawn("line", template, value, elem_id=elem_id, **options)


def refusal(error: ValueError) -> str:
    """The line that tells the page why nothing starts."""
    return stream.line(stream.Refusal(kind="refusal", id=uuid4().hex, sentence=in_words(complete(str(error)))))


def begun(identity: str) -> tuple[Any, ...]:
    """The updates of a start: the line by which the page follows the run, the buttons to start one and to stop it."""
    follow = stream.line(stream.Follow(kind="follow", id=identity))
    return follow, gr.update(interactive=False), gr.update(interactive=True)


def ended() -> tuple[Any, ...]:
    return gr.update(interactive=True), gr.update(interactive=False)


def slider_value(start: Start) -> float:
    """Where the slider begins: at hundredths from `LOWEST` on, and not at its end."""
    return min(max(round(start.threshold, 2), LOWEST), ONE_TOKEN - 0.01)
