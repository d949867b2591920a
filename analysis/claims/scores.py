"""Claim 5: probability, margin and entropy as acceptance score."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.claims.book import Book, Model, Run
from analysis.claims.finding import (
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    missing,
    number,
    points,
    together,
)
from analysis.claims.published import Published
from analysis.claims.thresholds import sweep
from analysis.stats.frontiers import measured_area, speed_at_loss
from analysis.stats.resampling import accuracy, percentiles

EQUAL_LOSS = 2.0
"""Points of accuracy at which tokens per forward of different frontiers are compared."""
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


def _compared_scores(book: Book, model: Model, sweeps: Mapping[str, tuple[Run, list[Run]]]) -> Finding:
    base = sweeps["probability"][0]
    reached = {
        score: speed_at_loss([book.rows(run) for run in runs], book.rows(base), EQUAL_LOSS)
        for score, (_, runs) in sweeps.items()
    }
    reference = (accuracy(book.rows(base)).value - EQUAL_LOSS / 100, 1.0)
    confidence, verdicts, measured, rows = together(len(sweeps) - 1), [], [], []
    own_value, own_drawn = reached["probability"]
    for score, (value, drawn) in reached.items():
        runs = sweeps[score][1]
        change = percentiles(value / own_value - 1, drawn / own_drawn - 1, confidence).scaled(100)
        area = measured_area({run.id: book.rows(run) for run in (base, *runs)}, reference=reference).scaled(100)
        thresholds = ", ".join(f"{run.threshold:g}" for run in runs)
        own = score == "probability"
        rows.append(
            (score, thresholds, number(percentiles(value, drawn)), "" if own else f"{points(change)} %", number(area))
        )
        if not own:
            limit = 100 * ALIKE
            verdicts.append(
                Verdict.of(
                    holds=change.low > -limit and change.high < limit, fails=change.low > limit or change.high < -limit
                )
            )
            measured.append(f"{score} reaches {points(change)} % tokens per forward against probability")
    at = f"at a loss of {EQUAL_LOSS:g} points"
    columns = ("score", "thresholds", f"tokens/forward {at}", "against probability", "area (points × tokens/forward)")
    note = f"The area is that between the measured points and a loss of {EQUAL_LOSS:g} points at 1 token per forward."
    return Finding(
        verdict=Verdict.of_all(verdicts),
        measured=[f"{book.name(model)}, {at}", *measured],
        runs=[base, *(run for _, runs in sweeps.values() for run in runs)],
        tables=[Table(title=f"{book.name(model)}, n = {base.n:,}", columns=columns, rows=rows)],
        notes=[note],
    )


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
