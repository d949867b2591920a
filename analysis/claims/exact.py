"""Claim 9: exact decoding writes the text of one-token mode, and beats the thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.claims.book import Book, Model, Run, on_same_problems
from analysis.claims.clock import EXACT, loss, race, threshold_words
from analysis.claims.finding import (
    MARGIN,
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    missing,
    number,
    points,
    times,
)
from analysis.claims.published import Published
from analysis.claims.thresholds import sweep
from analysis.stats.operating_points import operating_point
from analysis.stats.pairs import identical_texts, paired_difference, speed_up
from analysis.stats.resampling import tokens_per_forward


def _claimed(_: Published) -> str:
    return (
        "Mask proposals that the next pass verifies give the text of one-token mode, in fewer passes than any τ that "
        f"loses no more than {MARGIN:g} point, and at small batches in less time."
    )


def _exact(evidence: Evidence) -> Finding:
    book = evidence.book
    found = [_of_model(book, model) for model in book.models(lambda model: model.is_full_mars)]
    findings = [finding for finding in found if finding is not None]
    if not findings:
        return missing(f"runs of {EXACT}, of one-token mode and of several τ on the same problems")
    measured, runs, tables = race(book)
    return Finding(
        verdict=Verdict.of_all(finding.verdict for finding in findings),
        measured=[*(words for finding in findings for words in finding.measured), *measured],
        runs=[*(run for finding in findings for run in finding.runs), *runs],
        tables=[*(table for finding in findings for table in finding.tables), *tables],
        notes=[note for finding in findings for note in finding.notes],
    )


def _of_model(book: Book, model: Model) -> Finding | None:
    """Texts and tokens per forward of one model; None without its runs."""
    pairs = [pair for run in book.of(model, EXACT) if (pair := on_same_problems([run], book.one_token(model)))]
    swept = sweep(book, model)
    if not pairs or swept is None:
        return None
    checked = [(run, identical_texts(book.rows(run), book.rows(base))) for run, base in pairs if run.dtype == "float32"]
    same = sum(round(share.value * run.n) for run, share in checked)
    texts = sum(run.n for run, _ in checked)
    base, thresholds = swept
    best = max(
        (run for run, _ in pairs if run.problem_set == base.problem_set),
        key=lambda run: tokens_per_forward(book.rows(run)).value,
        default=None,
    )
    if best is None:
        return None
    rival = _fastest_within(book, base, thresholds)
    gain = speed_up(book.rows(best), book.rows(rival), "tokens_per_forward")
    verdict = Verdict.of(holds=bool(checked) and gain.surely_above(1), fails=same < texts or gain.surely_below(1))
    speed = number(tokens_per_forward(book.rows(best)))
    measured = [
        f"{book.name(model)}: {same:,} of {texts:,} texts identical",
        f"{speed} tokens per forward ({best.settings['layout']}), {times(gain)} those of {threshold_words(rival)}",
    ]
    certain = operating_point(
        {threshold_words(run): book.rows(run) for run in thresholds}, book.rows(base), points=MARGIN
    )
    return Finding(
        verdict=verdict,
        measured=measured,
        runs=[*dict.fromkeys(run for pair in pairs for run in pair), *thresholds],
        tables=[_forward_table(book, model, base, [run for run, _ in pairs], thresholds)],
        notes=[f"Of the τ of {book.name(model)} surely within {MARGIN:g} point: {certain}."],
    )


def _forward_table(book: Book, model: Model, base: Run, exact: Iterable[Run], thresholds: Sequence[Run]) -> Table:
    layouts = {run.settings["layout"]: run for run in exact if run.problem_set == base.problem_set}
    rows = []
    for run in (*layouts.values(), *thresholds):
        name = f"{EXACT}, {run.settings['layout']}" if run.decoder == EXACT else threshold_words(run)
        same = identical_texts(book.rows(run), book.rows(base))
        difference = paired_difference(book.rows(run), book.rows(base)).score_interval()
        rows.append(
            (name, f"{round(same.value * run.n):,}", points(difference), number(tokens_per_forward(book.rows(run))))
        )
    columns = ("setting", f"identical of {base.n:,}", "accuracy against one-token mode (points)", "tokens/forward")
    return Table(title=f"{book.name(model)}: exact decoding and thresholds", columns=columns, rows=rows)


def _fastest_within(book: Book, base: Run, thresholds: Sequence[Run]) -> Run:
    """Of the τ that lose no more than the margin as measured, and one-token mode itself, the fastest."""
    within = [run for run in thresholds if loss(book, run, base) <= MARGIN]
    return max([base, *within], key=lambda run: tokens_per_forward(book.rows(run)).value)


CLAIMS = (
    Claim(
        number=9,
        title="Exact decoding gives the text of one-token mode and beats the thresholds",
        claimed=_claimed,
        rule=f"""It holds if in float32 every text is identical to that of one-token mode, and if its best layout surely
            takes fewer passes than the fastest τ that loses no more than {MARGIN:g} point as measured. It does not
            hold if a text differs or it surely takes more. Wall-clock is compared with the fastest such τ, or AR,
            in the same turns; at which batch sizes it wins is a result and no part of the verdict.""",
        find=_exact,
        ours=True,
    ),
)
