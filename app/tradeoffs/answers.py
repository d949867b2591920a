"""Answers the questions of the tab. No answer is an exception, and none holds a path of this machine."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread
from typing import Annotated, Any

from plotly.io.json import to_json_plotly

from analysis.figures import FIGURES, template
from app.compare.runner import Runner
from app.models.sentences import answered
from app.tradeoffs import drawing, tables
from app.tradeoffs.card import card, entry_of, samples
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.view import FEWEST_POINTS, MOST_POINTS, POINTS, Text, View
from mars.schema import Strict, bounds, checked

Place = Annotated[int, bounds(0, 1_000_000)]
Told = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(Strict):
    """A question about one run."""

    id: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesRequest(RunRequest):
    """A question about its texts from number `first` on, optionally only right or wrong ones."""

    right: bool | None = None
    first: Place = 0


class RequestHandler:
    """Answers questions {"ask": one of these, "about": {...}, "ticket": n} about the runs of one folder."""

    def __init__(self, run_cache: RunCache, runner: Runner) -> None:
        self._run_cache = run_cache
        self._runner = runner
        self._warmed = Lock()
        self._asks: dict[str, Callable[[Any], Told]] = {
            "begin": self._begin,
            "view": lambda asked: self._drawn(View.of(asked.get("about"))),
            "csv": self._csv,
            "card": self._card,
            "samples": self._samples,
        }

    def answer(self, question: object) -> str:
        """JSON with the question's ticket, and the answer or the `problem`."""
        line = to_json_plotly(answered(question, self._asks))
        return line.replace("<", "\\u003c")  # so that nothing in it looks like a tag

    def _begin(self, asked: Told) -> Told:
        """The first answer; it includes the first view, if that can be shown, which saves a question."""
        store, shown, about = self._run_cache.store(), None, asked.get("about")
        if about:
            with suppress(ValueError):  # the page asks for the view by itself, and hears why not
                shown = self._drawn(View.of(about))
        return {
            "shown": shown,
            "figures": [{"value": name, "label": figure.question} for name, figure in FIGURES.items()],
            "points": {"value": POINTS, "least": FEWEST_POINTS, "most": MOST_POINTS},
            "templates": {name: template(dark=name == "dark").to_plotly_json() for name in ("light", "dark")},
            "problems": list(store.problems),
        }

    def warm(self) -> None:
        """Read the runs and draw the first view in the background, before a page asks for it."""
        if self._warmed.acquire(blocking=False):
            Thread(target=self._drawn, args=(View(),), name="tradeoffs-first", daemon=True).start()

    def _drawn(self, view: View) -> Told:
        """The view, drawn once while the runs stay as they are."""
        store = self._run_cache.store()
        shown: Told = store.remembered(("view", repr(view)), partial(drawing.draw, self._run_cache, view))
        return shown

    def _csv(self, asked: Told) -> Told:
        view = View.of(asked.get("about"))
        picked = drawing.select(self._run_cache, view)
        return {"text": tables.csv(drawing.listed(picked, picked.points)), "name": f"mars-lens-{view.figure}.csv"}

    def _card(self, asked: Told) -> Told:
        run = checked(RunRequest, asked.get("about"), "the card").id
        return card(self._run_cache.store(), self._run_cache.table(), run, self._runner.models.sources)

    def _samples(self, asked: Told) -> Told:
        question: SamplesRequest = checked(SamplesRequest, asked.get("about"), "the samples")
        runs = self._run_cache.store().runs
        return samples(runs, entry_of(runs, question.id), right=question.right, first=question.first)
