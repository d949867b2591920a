"""Claim 11: the prediction of the last mask, offered as one more proposal."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd

from analysis.claims.book import Book, Model, Run, on_same_problems
from analysis.claims.finding import (
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    missing,
    number,
    points,
    times,
    together,
)
from analysis.claims.published import Published
from analysis.claims.reach import why_the_last_mask_gains
from analysis.claims.scores import EQUAL_LOSS
from analysis.claims.thresholds import swept
from analysis.stats.frontiers import speed_at_loss
from analysis.stats.intervals import Interval
from analysis.stats.pairs import paired_difference, speed_up
from analysis.stats.resampling import percentiles, tokens_per_forward


def _extra_claimed(_: Published) -> str:
    return (
        "With B masks, B + 1 predictions are trained; the published sampler drops the last. To offer it gains tokens."
    )


def _extra(evidence: Evidence) -> Finding:
    """The same model and τ with and without the B+1-th proposal."""
    book = evidence.book
    pairs = [pair for model in book.models(lambda model: model.is_full_mars) for pair in _extra_pairs(book, model)]
    if not pairs:
        return missing("runs at the same τ with and without the B+1-th proposal, on the same problems")
    confidence, rows, gains, changes = together(2 * len(pairs)), [], [], []
    for without, offered in pairs:
        gain = speed_up(book.rows(offered), book.rows(without), "tokens_per_forward", confidence)
        change = paired_difference(book.rows(offered), book.rows(without)).score_interval(confidence)
        gains.append(gain)
        changes.append(change)
        speeds = [number(tokens_per_forward(book.rows(run))) for run in (without, offered)]
        rows.append((book.name(without.model), f"{without.threshold:g}", *speeds, times(gain), points(change)))
    why, proposing = why_the_last_mask_gains(book, pairs)
    loses = any(change.surely_below(0) for change in changes)
    return Finding(
        verdict=Verdict.of(
            holds=all(gain.surely_above(1) for gain in gains) and not loses,
            fails=loses or any(not gain.high > 1 for gain in gains),
        ),
        measured=[
            f"{book.name(without.model)}, τ = {without.threshold:g}: {times(gain)} tokens per forward, "
            f"{points(change)} points"
            for (without, _), gain, change in zip(pairs, gains, changes, strict=True)
        ],
        runs=[*(run for pair in pairs for run in pair), *proposing],
        tables=[
            Table(
                title="Tokens per forward without and with the B+1-th proposal",
                columns=("model", "τ", "without", "with", "gain", "accuracy (points)"),
                rows=rows,
            ),
            *_equal_loss(book, pairs),
        ],
        why=why,
    )


def _extra_pairs(book: Book, model: Model) -> list[tuple[Run, Run]]:
    found = []
    for threshold in sorted({run.threshold or 0.0 for run in swept(book, model, extra=True)}, reverse=True):
        choices = [
            [run for run in swept(book, model, extra=extra) if run.threshold == threshold] for extra in (False, True)
        ]
        if pair := on_same_problems(*choices):
            found.append((pair[0], pair[1]))
    return found


def _equal_loss(book: Book, pairs: list[tuple[Run, Run]]) -> list[Table]:
    """Whether it pays at equal accuracy too, which a tighter τ might give as well."""
    rows = []
    groups: dict[Hashable, list[tuple[Run, Run]]] = {}
    for pair in pairs:
        groups.setdefault((pair[0].model, pair[0].problem_set), []).append(pair)
    for alike in groups.values():
        model = alike[0][0].model
        base = on_same_problems([alike[0][0]], book.one_token(model))
        if len(alike) < 2 or base is None:
            continue
        reached = [speed_at_loss(_rows(book, alike, side), book.rows(base[1]), EQUAL_LOSS) for side in (0, 1)]
        gain = percentiles(reached[1][0] / reached[0][0], np.asarray(reached[1][1] / reached[0][1]))
        values: list[Interval] = [percentiles(value, drawn) for value, drawn in reached]
        rows.append((book.name(model), *map(number, values), times(gain)))
    columns = ("model", "without", "with", "gain")
    title = f"Tokens per forward at a loss of {EQUAL_LOSS:g} points, between the τ interpolated"
    return [Table(title=title, columns=columns, rows=rows)] if rows else []


def _rows(book: Book, pairs: list[tuple[Run, Run]], side: int) -> list[pd.DataFrame]:
    return [book.rows(pair[side]) for pair in pairs]


CLAIMS = (
    Claim(
        number=11,
        title="The B+1-th proposal gains tokens at the same τ",
        claimed=_extra_claimed,
        rule="""It holds if at every τ it surely adds tokens per forward and nowhere surely loses accuracy. It does not
            hold if it surely loses accuracy at some τ, or surely adds nothing. The intervals are right together in
            95 % of cases.""",
        find=_extra,
        ours=True,
    ),
)
