"""Claims about what training leaves behind: 2, the SFT loss, and 8, block diffusion."""

from __future__ import annotations

from analysis.claims.book import DIFFUSION, MARS, Book, Model, Run, on_same_problems
from analysis.claims.finding import (
    MARGIN,
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    lost,
    missing,
    percent,
    points,
)
from analysis.claims.published import Published
from analysis.stats.intervals import Interval
from analysis.stats.pairs import contrast, paired_difference
from analysis.stats.resampling import accuracy

COLLAPSE = 5.0
"""Points that a model must surely be behind AR to have collapsed."""


def _sft_loss_claimed(published: Published) -> str:
    mean, without = published.one_token_mean, "MARS without SFT loss"
    return (
        f"From B = 4 to 16 the mean falls from {mean(without, 4)} to {mean(without, 16)} without the SFT loss, and "
        f"from {mean('MARS', 4)} to {mean('MARS', 16)} with it."
    )


def _sft_loss(evidence: Evidence) -> Finding:
    """Of the models trained on equally much: from the smallest to the largest block, with and without the SFT loss."""
    book, models = evidence.book, evidence.book.ablations()
    found = {model: runs for model in models if (runs := book.one_token(model))}
    with_loss = {model.block_size: runs for model, runs in found.items() if model.is_full_mars}
    without = {model.block_size: runs for model, runs in found.items() if not model.is_full_mars}
    sizes = sorted(size for size in with_loss.keys() & without.keys() if size is not None)
    if len(sizes) < 2:
        return missing("one-token runs of MARS models of two block sizes, each with and without the SFT loss")
    chosen = on_same_problems(*(choice[size] for choice in (with_loss, without) for size in sizes))
    if chosen is None:
        return missing("one-token runs of these models on the same problems")
    kept, degraded = chosen[: len(sizes)], chosen[len(sizes) :]
    falls = [_fall(book, side[0], side[-1]) for side in (kept, degraded)]
    parts = [(1.0, degraded[0]), (-1.0, degraded[-1]), (-1.0, kept[0]), (1.0, kept[-1])]
    kept_back = contrast([(factor, book.rows(run)) for factor, run in parts])
    fall = f"from B = {sizes[0]} to {sizes[-1]}"
    rows = [
        (
            str(size),
            percent(accuracy(book.rows(one))),
            percent(accuracy(book.rows(other))),
            _difference(book, one, other),
        )
        for size, one, other in zip(sizes, kept, degraded, strict=True)
    ]
    return Finding(
        verdict=Verdict.of(
            holds=falls[1].low > 0 and kept_back.low > 0, fails=kept_back.high < 0 or falls[1].high < MARGIN
        ),
        measured=[
            f"without the SFT loss {lost(falls[1])} points are lost {fall}, with it {lost(falls[0])}",
            f"the SFT loss keeps {lost(kept_back)} of them",
        ],
        runs=chosen,
        tables=[Table(title="One-token mode", columns=("B", "with SFT loss", "without", "with − without"), rows=rows)],
    )


def _fall(book: Book, before: Run, after: Run) -> Interval:
    return paired_difference(book.rows(before), book.rows(after)).score_interval()


def _difference(book: Book, run: Run, other: Run) -> str:
    return points(paired_difference(book.rows(run), book.rows(other)).score_interval())


def _collapse_claimed(published: Published) -> str:
    mean = published.one_token_mean
    return (
        f"Block diffusion (B = 4) from the same start falls to {mean('Block Diffusion', 4)} from "
        f"{mean('AR SFT (5 epochs)')} of AR SFT in the mean; MARS at B = 4 has {mean('MARS', 4)}."
    )


def _collapse(evidence: Evidence) -> Finding:
    """Block diffusion at its most accurate setting against the AR model, and against MARS of its block size."""
    book = evidence.book
    rows, verdicts, measured, behind = [], [], [], []
    for model in book.models(lambda model: model.stage == DIFFUSION):
        start = book.start_of(model)
        tried = sorted(book.of(model), key=lambda run: (-run.n, -accuracy(book.rows(run)).value))
        found = start and on_same_problems(tried, book.one_token(start))
        if not found:
            continue
        rivals = [found[1], *_same_block(book, model, found[0])]
        for rival in rivals:
            interval = paired_difference(book.rows(found[0]), book.rows(rival)).score_interval()
            rows.append(
                (
                    f"{book.name(model)}, {found[0].decoder}",
                    percent(accuracy(book.rows(found[0]))),
                    book.name(rival.model),
                    percent(accuracy(book.rows(rival))),
                    points(interval),
                )
            )
            if rival is found[1]:
                verdicts.append(Verdict.of(holds=interval.high < -COLLAPSE, fails=interval.low > -COLLAPSE))
            measured.append(f"{book.name(model)} against {book.name(rival.model)}: {points(interval)} points")
        behind += [found[0], *rivals]
    if not rows:
        return missing("runs of a block diffusion model and of the AR model it began as on the same problems")
    columns = ("block diffusion", "accuracy", "against", "accuracy", "difference (points)")
    table = Table(title="The most accurate setting of block diffusion", columns=columns, rows=rows)
    return Finding(verdict=Verdict.of_all(verdicts), measured=measured, runs=behind, tables=[table])


def _same_block(book: Book, model: Model, run: Run) -> list[Run]:
    """MARS of the same size and block, trained on equally much, in one-token mode on the problems of `run`."""
    alike = book.models(
        lambda other: other.is_full_mars and other.block_size == model.block_size and other.examples == model.examples
    )
    both = [on_same_problems([run], book.one_token(other)) for other in alike if other.stage == MARS]
    return [found[1] for found in both if found]


CLAIMS = (
    Claim(
        number=2,
        title="The SFT loss keeps larger blocks from degrading",
        claimed=_sft_loss_claimed,
        rule=f"""It holds if without the SFT loss accuracy surely falls from the smallest to the largest block, and
            surely by more than with it. It does not hold if it surely falls by less than with it, or if there is
            nothing to keep from: surely less than {MARGIN:g} point is lost without it.""",
        find=_sft_loss,
    ),
    Claim(
        number=8,
        title="Block diffusion from the same start collapses",
        claimed=_collapse_claimed,
        rule=f"""It holds if block diffusion, at the most accurate setting measured, is surely more than {COLLAPSE:g}
            points behind the AR model, and does not hold if it is surely less.""",
        find=_collapse,
    ),
)
