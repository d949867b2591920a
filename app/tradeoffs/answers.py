"""What the page gets for what it asks: never an exception, and never a path of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from plotly.io.json import to_json_plotly

from analysis.figures import template
from app.runner import Runner
from app.runs.checks import choice, fields, text, whole
from app.sentences import complete, failure, without_paths
from app.tradeoffs import drawing, tables
from app.tradeoffs.again import rewrite
from app.tradeoffs.card import card
from app.tradeoffs.catalogue import AXES, FIGURES
from app.tradeoffs.library import Library
from app.tradeoffs.samples import entry_of, samples
from app.tradeoffs.view import FEWEST_POINTS, LONGEST, MOST_POINTS, POINTS, View

UNKNOWN = "The page asked for something that there is not; load it again."
MOST_SAMPLES = 1_000_000
Told = dict[str, Any]
_log = logging.getLogger(__name__)


class Desk:
    """Answers questions {"ask": one of these, "about": {...}, "ticket": n} about the runs of one library."""

    def __init__(self, library: Library, runner: Runner) -> None:
        self._library = library
        self._runner = runner
        self._asks: dict[str, Callable[[Any, str], Iterator[Told]]] = {
            "begin": self._begin,
            "reload": self._reload,
            "view": self._view,
            "csv": self._csv,
            "card": self._card,
            "samples": self._samples,
            "again": self._again,
        }

    def answer(self, asked: object, session: str) -> Iterator[str]:
        """JSON under the ticket of the question: sentences on the way as `progress`, and last the answer.

        An answer is what was asked for, or why not under `problem`.
        """
        found = asked if isinstance(asked, dict) else {}
        ticket = found.get("ticket")
        ticket = ticket if isinstance(ticket, int) and not isinstance(ticket, bool) else None
        ask = self._asks.get(name) if isinstance(name := found.get("ask"), str) else None
        try:
            if ask is None:
                raise ValueError(UNKNOWN)
            for told in ask(found.get("about"), session):
                yield _line({"ticket": ticket, **told})
        except ValueError as error:
            yield _line({"ticket": ticket, "problem": complete(without_paths(str(error)))})
        except Exception as error:  # noqa: BLE001 - whatever it was, the page says so and lives on
            _log.exception("a figure failed")
            yield _line({"ticket": ticket, "problem": failure(error).replace("The run failed", "That failed")})

    def _begin(self, about: Any, session: str) -> Iterator[Told]:
        del about, session
        yield from _on_the_way(self._library.opened())
        store = self._library.store()
        yield {
            "figures": [{"value": figure.name, "label": figure.label} for figure in FIGURES.values()],
            "points": {"value": POINTS, "least": FEWEST_POINTS, "most": MOST_POINTS},
            "templates": {name: template(dark=name == "dark").to_plotly_json() for name in ("light", "dark")},
            "problems": list(store.problems),
        }

    def _reload(self, about: Any, session: str) -> Iterator[Told]:
        changed = self._library.reload()
        for told in self._begin(about, session):
            yield told if "progress" in told else {**told, "changed": changed}

    def _view(self, about: Any, session: str) -> Iterator[Told]:
        del session
        view = _asked(about)
        yield from self._ready(view)
        yield drawing.draw(self._library, view)

    def _csv(self, about: Any, session: str) -> Iterator[Told]:
        del session
        view = _asked(about)
        yield from self._ready(view)
        picked = drawing.select(self._library, view)
        yield {"text": tables.csv(picked.figure.points(picked.scene)), "name": f"mars-lens-{view.figure}.csv"}

    def _card(self, about: Any, session: str) -> Iterator[Told]:
        del session
        run = text(fields(about, "the card", ("id",))["id"], "id", LONGEST)
        yield from _on_the_way(self._library.opened())
        yield card(self._library.store(), self._library.table(), run, self._runner.models.sources)

    def _samples(self, about: Any, session: str) -> Iterator[Told]:
        del session
        found = fields(about, "the samples", ("id",), ("task", "right", "first"))
        runs = self._library.store().runs
        entry = entry_of(runs, text(found["id"], "id", LONGEST))
        yield samples(
            runs,
            entry,
            task=text(found.get("task", ""), "task", LONGEST),
            right=choice(found.get("right"), "right", (True, False, None)),
            first=whole(found.get("first", 0), "first", 0, MOST_SAMPLES),
        )

    def _again(self, about: Any, session: str) -> Iterator[Told]:
        found = fields(about, "the sample", ("id", "task", "number"))
        run, task = (text(found[name], name, LONGEST) for name in ("id", "task"))
        place = whole(found["number"], "number", 0, MOST_SAMPLES)
        yield from rewrite(self._runner, session, self._library.store(), run, task, place)

    def _ready(self, view: View) -> Iterator[Told]:
        yield from _on_the_way(self._library.opened())
        yield from _on_the_way(self._library.opened(drawing.tasks_of(self._library, view)))


def _asked(about: Any) -> View:
    return View.of(about, FIGURES, AXES)


def _on_the_way(sentences: Iterator[str]) -> Iterator[Told]:
    return ({"progress": sentence} for sentence in sentences)


def _line(told: Told) -> str:
    return to_json_plotly(told).replace("<", "\\u003c")  # so that nothing in it looks like a tag
