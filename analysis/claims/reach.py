"""Why the B+1-th proposal gains much or nothing (claim 11): how many passes get as far."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.claims.book import Book, Model, Run
from analysis.claims.finding import Table, Why, percent
from analysis.stats.intervals import share


def why_the_last_mask_gains(book: Book, pairs: Sequence[tuple[Run, Run]]) -> tuple[Why, list[Run]]:
    """Sentences and tables of runs without and with it, and the further runs that they rest on."""
    rows, counts = [], dict[Model, list[int]]()
    for _, offered in pairs:
        model, block = offered.model, offered.settings["block_size"]
        passes, there, taken = _reached(book.rows(offered), block)
        counts[model] = [sum(each) for each in zip(counts.get(model, [0, 0, 0]), (passes, there, taken), strict=True)]
        rows.append(
            (
                *(book.name(model), f"{offered.threshold:g}", f"{passes:,}"),
                *(percent(share(there, passes)), percent(share(taken, there)) if there else "", f"{taken:,}"),
            )
        )
    sentences = [_in_words(book.name(model), *found) for model, found in counts.items()]
    columns = ("model", "τ", "passes", "accept the B before it", "of these, it too", "gained tokens")
    reached = Table(title="How many passes get as far as the B+1-th proposal", columns=columns, rows=rows)
    depths, kept = _depths(book, pairs)
    return [*sentences, reached, *depths], kept


def _in_words(name: str, passes: int, there: int, taken: int) -> str:
    if not there:
        return (
            f"{name}: none of {passes:,} passes accepts all that stands before it, so nothing is gained by offering it."
        )
    return (
        f"{name}: {100 * there / passes:.1f} % of {passes:,} passes accept all that stands before it, and "
        f"{100 * taken / there:.1f} % of these accept it too: {taken / passes:.3f} tokens a pass."
    )


def _reached(rows: pd.DataFrame, block: int) -> tuple[int, int, int]:
    """Passes, those that accept the first B proposals or more, and those that accept B + 1."""
    lengths = [list(counts) for counts in rows["acceptance_lengths"]]
    there = sum(int(sum(counts[block - 1 :])) for counts in lengths)
    taken = sum(int(counts[block]) for counts in lengths if len(counts) > block)
    return int(rows["passes"].sum()), there, taken


def _depths(book: Book, pairs: Sequence[tuple[Run, Run]]) -> tuple[Why, list[Run]]:
    """The scores of the first and of the last mask of a window, where exact decoding kept them."""
    rows, runs = [], []
    for model in dict.fromkeys(offered.model for _, offered in pairs):
        run = book.proposing(model)
        if run is None:
            continue
        runs.append(run)
        proposals = book.proposals(run)
        thresholds = sorted({offered.threshold or 0.0 for _, offered in pairs if offered.model == model}, reverse=True)
        for depth in sorted({int(proposals["depth"].min()), int(proposals["depth"].max())}):
            part = proposals[proposals["depth"] == depth]
            reaching = ", ".join(f"{100 * (part['score'] >= τ).mean():.0f} % at τ = {τ:g}" for τ in thresholds)
            agrees = percent(share(int(part["agrees"].sum()), len(part)))
            rows.append(
                (
                    book.name(model),
                    f"{depth}",
                    f"{len(part):,}",
                    f"{100 * part['score'].mean():.0f} %",
                    reaching,
                    agrees,
                )
            )
    columns = ("model", "masks read", "n", "mean score", "reach τ", "right")
    title = "The first and the last mask of a window of B: scores, and how often one-token mode writes the same"
    return ([Table(title=title, columns=columns, rows=rows)] if rows else []), runs
