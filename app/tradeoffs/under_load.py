"""The view “Under load”: load tests are not runs, so they have a view of their own beside the figures."""

from __future__ import annotations

from typing import Any

from analysis.figures.style import empty
from analysis.figures.under_load import NAME, POINTS, under_load, under_load_points
from analysis.questions import FIGURES
from analysis.runs.loads import LoadTest
from analysis.studies import STUDIES
from app.tradeoffs.drawing import page
from app.tradeoffs.tables import csv, laid_out, number, text
from app.tradeoffs.view import LOAD, View

NO_TEST = f"No load test is there yet. This makes one, on a machine that does nothing else: {STUDIES['load'].line()}"
CURVE = 3  # loads of which a line tells more than a few points
_HOW = {
    False: "on one server over HTTP, one lane after the other",
    True: "in one process: passes of all lanes took turns, each lane on a simulated clock that adds up its own passes",
}
_COLUMNS = (
    text("Lane", "series"),
    text("Arrivals", "load"),
    number("Requests a second", "offered", ".2f"),
    number("n", "requests", ".0f"),
    number("Refused", "refused", ".0f"),
    number("Goodput", "goodput", ".2f"),
    number("Tokens a second", "tokens_per_second", ".1f"),
    number("First token p50 (s)", "ttft_p50", ".3f"),
    number("First token p99 (s)", "ttft_p99", ".3f"),
    number("Further tokens p50 (s)", "tpot_p50", ".4f"),
    number("Further tokens p99 (s)", "tpot_p99", ".4f"),
    number("Wrong texts", "wrong", ".0f"),
    number("Right", "right", ".0f"),
    number("Judged", "judged", ".0f"),
    number("Accuracy against AR (points)", POINTS, "+.1f"),
    number("Pairs", "pairs", ".0f"),
)


def draw(loads: tuple[LoadTest, ...], view: View) -> dict[str, Any]:
    """As `app.tradeoffs.drawing.draw`; `view.runs` names the load test, by default that of `chosen`."""
    test = chosen(loads, view)
    figure = empty("No load test is there yet.", NAME) if test is None else under_load(test)
    rows = under_load_points(test).sort_values(["rank", "offered"]).to_dict("records") if test else []
    return {
        "figure": page(figure),
        "caption": _caption(test) if test else "",
        "empty": "" if test else NO_TEST,
        "axes": [],
        "against": view.against,
        "runs": {
            "value": test.id if test else "",
            "options": [{"value": one.id, "label": _label(one)} for one in loads],
        },
        "batch": {"value": 0, "options": []},
        "tasks": [],
        "task": view.task,
        "answer": None,
        "table": laid_out(_COLUMNS if test else (), rows),
    }


def chosen(loads: tuple[LoadTest, ...], view: View) -> LoadTest | None:
    """The load test that a view names; if it names none that exists, the newest with a curve, else the newest."""
    named = next((one for one in loads if one.id == view.runs), None)
    curves = (one for one in loads if len({result.load for result in one.results}) >= CURVE)
    return named or next(curves, None) or next(iter(loads), None)


def _label(test: LoadTest) -> str:
    """A name that no other load test has, not even one of the same model on the same day."""
    requests = sum(one.requests for one in test.results if one.lane == test.results[0].lane)
    places = f"{test.places} place{'' if test.places == 1 else 's'}"
    return f"{test.model}, {test.date[:10]}, {requests:,} requests a lane, {places}, {test.hardware}"


def numbers(loads: tuple[LoadTest, ...], view: View) -> str:
    """The numbers that are drawn, as CSV."""
    test = chosen(loads, view)
    return csv(under_load_points(test)) if test else ""


def _caption(test: LoadTest) -> str:
    return (
        FIGURES[LOAD]
        .caption()
        .format(
            how=_HOW[test.in_turn],
            ttft=test.limits.ttft,
            tpot=test.limits.tpot,
            seconds=test.seconds,
            questions=test.questions,
            model=test.model,
            dtype=test.dtype,
            places=test.places,
            threads=test.threads,
            hardware=test.hardware,
            date=test.date[:10],
            commit=(test.commit or "unknown")[:10],
            seed=test.seed,
        )
    )
