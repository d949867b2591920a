"""Trade-offs: the measured runs as figures. Python selects the runs and answers questions; the browser draws.

No answer is an exception, and none holds a path of this machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any

import gradio as gr
from plotly.io.json import to_json_plotly

from analysis.figures import FIGURES, template
from app.browser import bundle
from app.compare.runner import Runner
from app.models.sentences import answered
from app.tabs.parts import QUIET, drawn
from app.tradeoffs.card import card, entry_of, samples
from app.tradeoffs.drawing import FEWEST_POINTS, MOST_POINTS, POINTS, Text, View, draw
from app.tradeoffs.run_cache import RunCache
from mars.schema import Strict, bounds, checked

MOST_DRAWN = 256
"""Views that are kept."""
FIRST = {"ask": "view", "about": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(Strict):
    """A question about one run; of its texts, those from number `first` on, optionally only right or wrong ones."""

    id: Text
    right: bool | None = None
    first: Annotated[int, bounds(0, 1_000_000)] = 0


def answering(run_cache: RunCache, runner: Runner) -> Callable[[object], str]:
    """What answers {"ask": one of these, "about": {...}, "ticket": n}: JSON with the ticket and answer or `problem`."""
    shown = lru_cache(MOST_DRAWN)(partial(draw, run_cache))

    def run(asked: dict[str, Any]) -> RunRequest:
        request: RunRequest = checked(RunRequest, asked.get("about"), "the run")
        return request

    def texts(asked: dict[str, Any]) -> dict[str, Any]:
        wanted, runs = run(asked), run_cache.runs
        return samples(runs, entry_of(runs, wanted.id), right=wanted.right, first=wanted.first)

    asks: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "view": lambda asked: shown(View.of(asked.get("about"))),
        "card": lambda asked: card(run_cache, run(asked).id, runner.models.sources),
        "samples": texts,
    }

    def answer(question: object) -> str:
        return to_json_plotly(answered(question, asks)).replace("<", "\\u003c")  # so that nothing looks like a tag

    return answer


def build(page: gr.Blocks, runner: Runner, run_cache: RunCache) -> None:
    """Lay out the tab inside `page`; its first figure is drawn in advance."""
    answer = answering(run_cache, runner)
    view = drawn(
        "tradeoffs",
        '<div class="trade lens-stack"></div>',
        elem_id="tradeoffs",
        plotly=bundle.plotly(),
        templates={name: template(dark=name == "dark").to_plotly_json() for name in ("light", "dark")},
        figures=[{"value": name, "label": figure.question} for name, figure in FIGURES.items()],
        points={"value": POINTS, "least": FEWEST_POINTS, "most": MOST_POINTS},
    )

    def warm() -> None:
        run_cache.once("first", lambda: answer(FIRST))

    def reply(event: gr.EventData) -> str:
        return answer(event._data)

    page.load(warm, concurrency_limit=1, **QUIET)
    # The next question may come before Gradio has closed the books on the one before.
    view.submit(reply, None, view, concurrency_limit=None, trigger_mode="multiple", **QUIET)
