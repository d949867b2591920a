"""Claim 5: probability, margin and entropy as acceptance score."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.claims.book import Book, Model, Run
from analysis.claims.finding import (
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    Why,
    missing,
    number,
    points,
    together,
)
from analysis.claims.needed import about, problems_needed_between
from analysis.claims.published import Published
from analysis.claims.thresholds import sweep
from analysis.stats.frontiers import measured_area, speed_at_loss
from analysis.stats.intervals import Interval
from analysis.stats.resampling import accuracy, percentiles

EQUAL_LOSS = 2.0
"""Points of accuracy at which tokens per forward of different frontiers are compared."""
Sweep = tuple[Run, list[Run]]
"""One-token mode of a model, and its runs by threshold."""
LOSSES = (1.0, EQUAL_LOSS, 5.0, 10.0, 20.0)
"""Further losses, to see what the choice of one decides."""
ALIKE = 0.05
"""Frontiers are similar where tokens per forward at equal loss differ by less than this share."""


def _scores_claimed(_: Published) -> str:
    return "Probability, margin and entropy as acceptance score give similar frontiers."


def _scores(evidence: Evidence) -> Finding:
    """Tokens per forward at an equal loss, between the thresholds interpolated, for each score against probability."""
    book = evidence.book
    for model in book.models(lambda model: model.is_full_mars):
        sweeps = {
            score: found
            for score in ("probability", "margin", "entropy")
            if (found := sweep(book, model, score=score)) and len(found[1]) > 1
        }
        sweeps = {
            score: found
            for score, found in sweeps.items()
            if found[0].problem_set == next(iter(sweeps.values()))[0].problem_set
        }
        if len(sweeps) == 3:
            return _compared_scores(book, model, sweeps)
    return missing("runs of one MARS model at several thresholds of each of probability, margin and entropy")


def _compared_scores(book: Book, model: Model, sweeps: Mapping[str, Sweep]) -> Finding:
    base = sweeps["probability"][0]
    reached, changes = _at_loss(book, sweeps, EQUAL_LOSS)
    reference = (accuracy(book.rows(base)).value - EQUAL_LOSS / 100, 1.0)
    rows = []
    for score, (value, drawn) in reached.items():
        runs = sweeps[score][1]
        area = measured_area({run.id: book.rows(run) for run in (base, *runs)}, reference=reference).scaled(100)
        thresholds = ", ".join(f"{run.threshold:g}" for run in runs)
        against = f"{points(changes[score])} %" if score in changes else ""
        rows.append((score, thresholds, number(percentiles(value, drawn)), against, number(area)))
    limit = 100 * ALIKE
    verdicts = [
        Verdict.of(holds=change.low > -limit and change.high < limit, fails=change.low > limit or change.high < -limit)
        for change in changes.values()
    ]
    measured = [
        f"{score} reaches {points(change)} % tokens per forward against probability"
        for score, change in changes.items()
    ]
    at = f"at a loss of {EQUAL_LOSS:g} points"
    columns = ("score", "thresholds", f"tokens/forward {at}", "against probability", "area (points × tokens/forward)")
    note = f"The area is that between the measured points and a loss of {EQUAL_LOSS:g} points at 1 token per forward."
    return Finding(
        verdict=Verdict.of_all(verdicts),
        measured=[f"{book.name(model)}, {at}", *measured],
        runs=[base, *(run for _, runs in sweeps.values() for run in runs)],
        tables=[Table(title=f"{book.name(model)}, n = {base.n:,}", columns=columns, rows=rows)],
        notes=[note],
        why=_why(book, sweeps),
    )


def _why(book: Book, sweeps: Mapping[str, Sweep]) -> Why:
    """How few problems the reading rests on, how many would tell, and what other losses say."""
    n, rows = sweeps["probability"][0].n, []
    _, changes = _at_loss(book, sweeps, EQUAL_LOSS)
    found = {score: problems_needed_between(n, change, 100 * ALIKE) for score, change in changes.items()}
    needed = ", ".join(f"{about(problems)} for {score}" for score, problems in found.items())
    few = (
        f"A loss of {EQUAL_LOSS:g} points is {EQUAL_LOSS / 100 * n:.0f} of {n:,} problems, and which they are decides "
        f"where on the frontier it is read. If the values stay as they are, about so many would tell: {needed}."
    )
    for loss in LOSSES:
        reached, changes = _at_loss(book, sweeps, loss)
        cells = [f"{points(change)} %" for change in changes.values()]
        rows.append((f"{loss:g}", number(percentiles(*reached["probability"])), *cells))
    columns = ("loss (points)", "tokens/forward by probability", *(f"{score} against it" for score in changes))
    title = f"The same at other losses; the verdict is that at {EQUAL_LOSS:g} points"
    return [few, Table(title=title, columns=columns, rows=rows)]


def _at_loss(
    book: Book, sweeps: Mapping[str, Sweep], loss: float
) -> tuple[dict[str, tuple[float, np.ndarray]], dict[str, Interval]]:
    """Tokens per forward of each score at a loss, with their draws, and by how many percent the others differ from
    probability: intervals that are right together."""
    base = sweeps["probability"][0]
    reached = {
        score: speed_at_loss([book.rows(run) for run in runs], book.rows(base), loss)
        for score, (_, runs) in sweeps.items()
    }
    own_value, own_drawn = reached["probability"]
    changes = {
        score: percentiles(value / own_value - 1, drawn / own_drawn - 1, together(len(sweeps) - 1)).scaled(100)
        for score, (value, drawn) in reached.items()
        if score != "probability"
    }
    return reached, changes


CLAIMS = (
    Claim(
        number=5,
        title="Probability, margin and entropy give similar frontiers",
        claimed=_scores_claimed,
        rule=f"""Tokens per forward are read off each frontier at a loss of {EQUAL_LOSS:g} points against one-token
            mode, interpolated between thresholds. It holds if those of margin and entropy surely differ by less than
            {ALIKE:.0%} from those of probability, and does not hold if one surely differs by more.""",
        find=_scores,
    ),
)
