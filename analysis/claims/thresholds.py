"""Sweeps over τ, and claim 3: it gives a smooth frontier."""

from __future__ import annotations

from itertools import pairwise

from analysis.claims.book import Book, Model, Run, largest_group, on_same_problems
from analysis.claims.finding import (
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    lost,
    missing,
    number,
    percent,
    points,
    together,
)
from analysis.claims.losses import why_thresholds_lose
from analysis.claims.published import Published
from analysis.stats.intervals import Interval
from analysis.stats.pairs import paired_difference, speed_up
from analysis.stats.resampling import accuracy, tokens_per_forward

AT = 0.95
"""The threshold that the paper speaks of."""


def swept(book: Book, model: Model, *, score: str = "probability", extra: bool = False) -> list[Run]:
    """The runs of a model with a threshold, at the block size of its training."""
    return book.where(
        lambda run: (
            run.model == model
            and run.decoder == "sliding_window"
            and run.threshold is not None
            and run.has(score=score, extra_proposal=extra)
            and run.settings["block_size"] == (model.block_size or run.settings["block_size"])
        )
    )


def sweep(book: Book, model: Model, **which: object) -> tuple[Run, list[Run]] | None:
    """One-token mode of a model, and its runs by threshold on the same problems: the loosest last."""
    runs = swept(book, model, **which)  # type: ignore[arg-type]
    by_threshold = largest_group(runs, lambda run: run.threshold)
    found = on_same_problems(book.one_token(model), by_threshold.values())
    if found is None:
        return None
    low_is_strict = runs[0].settings["score"] == "entropy"
    ordered = sorted(by_threshold.values(), key=lambda run: run.threshold or 0.0, reverse=not low_is_strict)
    return found[0], ordered


def _frontier_claimed(published: Published) -> str:
    table = published.at_threshold()
    losses, speeds = table["loss"], table["tokens_per_forward"]
    return (
        f"A smooth frontier; τ = {AT:g} costs {losses.min():.1f} to {losses.max():.1f} points of the mean for "
        f"{speeds.min():.2f} to {speeds.max():.2f} tokens per forward, over models and block sizes."
    )


def _frontier(evidence: Evidence) -> Finding:
    """Per MARS model: what τ = 0.95 costs and gains, and whether each step down adds tokens per forward."""
    book, table = evidence.book, evidence.published.at_threshold()
    found = {model: swept for model in book.models(lambda m: m.is_full_mars) if (swept := sweep(book, model))}
    judged = {
        model: (base, runs)
        for model, (base, runs) in found.items()
        if len(runs) > 1 and any(run.threshold == AT for run in runs)
    }
    if not judged:
        return missing(f"runs of sliding_window at several τ, {AT:g} among them, and in one-token mode")
    confidence = together(2 * len(judged))
    verdicts, measured, tables = [], [], []
    for model, (base, runs) in judged.items():
        at = next(run for run in runs if run.threshold == AT)
        loss = paired_difference(book.rows(at), book.rows(base)).score_interval(confidence).scaled(-1)
        speed = tokens_per_forward(book.rows(at), confidence)
        steps = _steps(book, [base, *runs])
        most, least = table["loss"].max(), table["tokens_per_forward"].min()
        rises = all(step.value > 1 for step in steps)
        falls = any(step.surely_below(1) for step in steps)
        verdicts.append(
            Verdict.of(
                holds=rises and loss.high <= most and speed.low >= least,
                fails=falls or loss.surely_above(most) or speed.surely_below(least),
            )
        )
        words = f"{book.name(model)}: τ = {AT:g} costs {lost(loss)} points for {number(speed)} tokens per forward"
        measured.append(words if rises else f"{words}, and not every step down in τ adds tokens")
        tables.append(_threshold_table(book, model, base, runs))
    why, proposing = why_thresholds_lose(book, judged, AT)
    return Finding(
        verdict=Verdict.of_all(verdicts),
        measured=measured,
        runs=[*(run for base, runs in judged.values() for run in (base, *runs)), *proposing],
        tables=tables,
        why=why,
    )


def _steps(book: Book, runs: list[Run]) -> list[Interval]:
    """Tokens per forward of each run over the one before."""
    return [speed_up(book.rows(after), book.rows(before), "tokens_per_forward") for before, after in pairwise(runs)]


def _threshold_table(book: Book, model: Model, base: Run, runs: list[Run]) -> Table:
    rows = [("none", percent(accuracy(book.rows(base))), "", number(tokens_per_forward(book.rows(base))))]
    for run in runs:
        difference = paired_difference(book.rows(run), book.rows(base))
        rows.append(
            (
                f"{run.threshold:g}",
                percent(accuracy(book.rows(run))),
                points(difference.score_interval()),
                number(tokens_per_forward(book.rows(run))),
            )
        )
    columns = ("τ", "accuracy", "against one-token mode (points)", "tokens/forward")
    return Table(title=f"{book.name(model)}, n = {base.n:,}", columns=columns, rows=rows)


CLAIMS = (
    Claim(
        number=3,
        title="τ gives a smooth frontier",
        claimed=_frontier_claimed,
        rule=f"""Judged for each MARS model with the SFT loss. It holds if every step down in τ adds tokens per forward
            and if τ = {AT:g} surely loses no more points than the most that was published and surely gains at least
            the least tokens per forward that were. It does not hold if a step down surely takes tokens per forward
            away, if τ = {AT:g} surely loses more points, or if it surely gains less. The intervals of loss and gain
            are right together in 95 % of cases.""",
        find=_frontier,
    ),
)
