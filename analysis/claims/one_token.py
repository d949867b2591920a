"""Claim 1: one-token mode of MARS against the AR model it began as, and against more AR training."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.claims.book import Book, Run, on_same_problems
from analysis.claims.finding import (
    MARGIN,
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    Why,
    missing,
    percent,
    points,
    together,
)
from analysis.claims.needed import about, problems_needed
from analysis.claims.published import Published
from analysis.stats.intervals import Interval
from analysis.stats.pairs import PairedDifference, paired_difference
from analysis.stats.resampling import accuracy


def _one_token_claimed(published: Published) -> str:
    mean = published.one_token_mean
    return (
        f"One-token mode of MARS (B = 4) reaches {mean('MARS', 4)} against {mean('AR SFT (5 epochs)')} of AR SFT in "
        f"the mean of six benchmarks; AR SFT for twice the epochs falls to {mean('AR SFT (10 epochs)')}."
    )


def _one_token(evidence: Evidence) -> Finding:
    """Each MARS model against the AR model it began as, and against AR with as much compute where there is one."""
    book = evidence.book
    pairs: list[tuple[str, Run, Run]] = []
    for model in book.models(lambda model: model.is_full_mars):
        for what, other in (("start", book.start_of(model)), ("compute", book.compute_matched(model))):
            found = other and on_same_problems(book.one_token(model), book.one_token(other))
            if found:
                pairs.append((what, found[0], found[1]))
    if not pairs:
        return missing("one-token runs of a MARS model and of an AR model on the same problems")
    rows, verdicts, measured, undecided = [], [], [], []
    for what, run, rival in pairs:
        difference = paired_difference(book.rows(run), book.rows(rival))
        interval = difference.score_interval(together(len(pairs)))
        verdicts.append(Verdict.of(holds=interval.low >= -MARGIN, fails=interval.high < 0))
        if verdicts[-1] is Verdict.OPEN:
            undecided.append((run, rival, interval))
        measured.append(f"{book.name(run.model)} against {book.name(rival.model)}: {points(interval)} points")
        rows.append(
            (
                book.name(run.model),
                percent(accuracy(book.rows(run))),
                f"{book.name(rival.model)} ({'compute-matched' if what == 'compute' else 'start'})",
                percent(accuracy(book.rows(rival))),
                points(interval),
                f"{difference.gained} / {difference.lost}",
                f"{difference.p_value:.2g}",
                verdicts[-1].value,
            )
        )
    if not any(what == "compute" for what, _, _ in pairs):
        verdicts.append(Verdict.MISSING)
        measured.append("AR with as much compute is not measured")
    columns = ("MARS", "accuracy", "AR", "accuracy", "difference (points)", "gained / lost", "McNemar p", "")
    table = Table(title="One-token mode, all families", columns=columns, rows=rows)
    return Finding(
        verdict=Verdict.of_all(verdicts),
        measured=measured,
        runs=[run for _, *both in pairs for run in both],
        tables=[table],
        why=[*_needed(book, undecided), *_further_training(book, pairs), *_families(book, pairs)],
    )


def _needed(book: Book, undecided: Sequence[tuple[Run, Run, Interval]]) -> Why:
    """How many problems would tell."""
    rows = [
        (
            *(book.name(run.model), book.name(rival.model), points(interval), f"{run.n:,}"),
            about(problems_needed(run.n, interval, above=-MARGIN, below=0.0)),
        )
        for run, rival, interval in undecided
    ]
    columns = ("MARS", "AR", "difference (points)", "n", "n it would take")
    title = "Problems it would take until the interval decides, if the difference stays as it was measured"
    return [Table(title=title, columns=columns, rows=rows)] if rows else []


def _further_training(book: Book, pairs: Sequence[tuple[str, Run, Run]]) -> Why:
    """What the AR model itself gains or loses where it trains on, from the runs that MARS is compared with."""
    starts = {run: rival for what, run, rival in pairs if what == "start"}
    told = {(rival, starts[run]) for what, run, rival in pairs if what == "compute" and run in starts}
    sentences = []
    for longer, start in sorted(told, key=lambda pair: (pair[0].id, pair[1].id)):
        if longer.problem_set != start.problem_set:
            continue
        change = paired_difference(book.rows(longer), book.rows(start)).score_interval()
        sentences.append(
            f"AR that trains on moves as well: {book.name(longer.model)} against {book.name(start.model)} is "
            f"{points(change)} points, without a mask."
        )
    return [*sentences]


def _families(book: Book, pairs: Sequence[tuple[str, Run, Run]]) -> Why:
    """Where the model differs from the one it began as."""
    against = {run: rival for what, run, rival in pairs if what == "start"}
    tasks = sorted({str(task) for run in against for task in book.rows(run)["task"]})
    rows = []
    worse: dict[str, list[str]] = {}
    for run, rival in against.items():
        found = {task: _of_family(book, run, rival, task) for task in tasks}
        for task, difference in found.items():
            if difference and difference.score_interval().surely_below(0):
                worse.setdefault(task, []).append(book.name(run.model))
        rows.append((book.name(run.model), f"{run.n:,}", *map(_cell, found.values())))
    sentences = [f"Surely behind the start in {task}: {', '.join(models)}." for task, models in worse.items()]
    title = "Problems gained and lost against the start, by family (* surely, of this family alone)"
    return [*sentences, Table(title=title, columns=("MARS", "n", *tasks), rows=rows)]


def _of_family(book: Book, run: Run, rival: Run, task: str) -> PairedDifference | None:
    ours, theirs = (rows[rows["task"] == task] for rows in (book.rows(run), book.rows(rival)))
    return paired_difference(ours, theirs) if len(ours) else None


def _cell(difference: PairedDifference | None) -> str:
    if difference is None:
        return ""
    interval = difference.score_interval()
    surely = interval.surely_above(0) or interval.surely_below(0)
    return f"+{difference.gained} −{difference.lost}{'*' if surely else ''}"


CLAIMS = (
    Claim(
        number=1,
        title="One-token mode is not behind AR, and more AR training does not explain it",
        claimed=_one_token_claimed,
        rule=f"""Each MARS model with the SFT loss is compared with the AR model it began as, and with an AR model that
            saw twice as many conversations, where there is one. It holds if every interval of the difference lies
            above −{MARGIN:g} point, and does not hold if one lies below 0. The intervals are right together in 95 %
            of cases.""",
        find=_one_token,
    ),
)
