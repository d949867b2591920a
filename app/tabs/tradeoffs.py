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

Place = Annotated[int, bounds(0, 1_000_000)]
MOST_DRAWN = 256
"""Views that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(Strict):
    """A question about one run; of its texts, those from number `first` on, optionally only right or wrong ones."""

    id: Text
    right: bool | None = None
    first: Place = 0


class RequestHandler:
    """Answers questions {"ask": one of these, "about": {...}, "ticket": n} about the runs of one folder."""

    def __init__(self, run_cache: RunCache, runner: Runner) -> None:
        self._run_cache = run_cache
        self._runner = runner
        self._drawn = lru_cache(MOST_DRAWN)(partial(draw, run_cache))
        self._asks: dict[str, Callable[[Any], dict[str, Any]]] = {
            "view": lambda asked: self._drawn(View.of(asked.get("about"))),
            "card": self._card,
            "samples": self._samples,
        }

    def answer(self, question: object) -> str:
        """JSON with the question's ticket, and the answer or the `problem`."""
        line = to_json_plotly(answered(question, self._asks))
        return line.replace("<", "\\u003c")  # so that nothing in it looks like a tag

    def warm(self) -> None:
        """Read the runs and draw the first view before a page asks for it."""
        self._drawn(View())

    def _card(self, asked: dict[str, Any]) -> dict[str, Any]:
        return card(self._run_cache, _run(asked).id, self._runner.models.sources)

    def _samples(self, asked: dict[str, Any]) -> dict[str, Any]:
        wanted, runs = _run(asked), self._run_cache.runs
        return samples(runs, entry_of(runs, wanted.id), right=wanted.right, first=wanted.first)


def _run(asked: dict[str, Any]) -> RunRequest:
    request: RunRequest = checked(RunRequest, asked.get("about"), "the run")
    return request


def build(page: gr.Blocks, runner: Runner, run_cache: RunCache) -> None:
    """Lay out the tab inside `page`; its first figure is drawn in advance."""
    handler = RequestHandler(run_cache, runner)
    view = drawn(
        "tradeoffs",
        '<div class="trade"></div>',
        elem_id="tradeoffs",
        plotly=bundle.plotly(),
        templates={name: template(dark=name == "dark").to_plotly_json() for name in ("light", "dark")},
        figures=[{"value": name, "label": figure.question} for name, figure in FIGURES.items()],
        points={"value": POINTS, "least": FEWEST_POINTS, "most": MOST_POINTS},
    )

    def answer(event: gr.EventData) -> str:
        return handler.answer(event._data)

    page.load(handler.warm, concurrency_limit=1, **QUIET)
    # The next question may come before Gradio has closed the books on the one before.
    view.submit(answer, None, view, concurrency_limit=None, trigger_mode="multiple", **QUIET)
