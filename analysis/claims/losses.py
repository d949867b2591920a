"""Why a threshold loses (claim 3): what scores are worth, what a wrong token costs, and which families lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.claims.book import Book, Model, Run
from analysis.claims.finding import Table, Why, lost, percent, signed
from analysis.stats.intervals import Interval, share
from analysis.stats.pairs import paired, paired_difference

Judged = Mapping[Model, tuple[Run, Sequence[Run]]]
"""Of each model, its run in one-token mode and those by threshold, the loosest last."""


def why_thresholds_lose(book: Book, judged: Judged, at: float) -> tuple[Why, list[Run]]:
    """Sentences and tables, and the further runs that they rest on."""
    kept = {model: run for model in judged if (run := book.proposing(model))}
    runs = {model: next(run for run in swept if run.threshold == at) for model, (_, swept) in judged.items()}
    found = [
        *_calibration(book, kept, at),
        *_cost(book, {model: (judged[model][0], run) for model, run in runs.items()}, at),
        *_families(book, judged, at),
    ]
    return found, list(kept.values())


def depths_of(proposals: pd.DataFrame) -> pd.Series:
    """The group of each proposal by how many masks it read: 1, 2–3, 4–7, … Its number is that of the first of them."""
    return proposals["depth"].map(lambda depth: 1 << (int(depth).bit_length() - 1))


def depth_words(first: int, last: int) -> str:
    """A group of depths, for people."""
    return f"{first}" if first == last else f"{first}–{last}"


def _calibration(book: Book, kept: Mapping[Model, Run], at: float) -> Why:
    sentences, rows = [], []
    for model, run in kept.items():
        proposals = book.proposals(run)
        reaching = proposals[proposals["score"] >= at]
        if reaching.empty:
            continue
        says, agrees = _worth(reaching)
        name = book.name(model)
        words = (
            f"{name}: mask proposals that reach τ = {at:g} say {100 * says:.1f} % and are right in {percent(agrees)}"
        )
        excess = 100 * (says - agrees.value)
        sentences.append(
            f"{words}: too sure by {excess:.1f} points."
            if agrees.surely_below(says)
            else f"{words}: as right as they say. What is lost is what a τ below 1 lets pass."
        )
        for first, part in reaching.groupby(depths_of(reaching)):
            says, agrees = _worth(part)
            rows.append(
                (
                    book.name(model),
                    depth_words(int(part["depth"].min()), int(part["depth"].max())),
                    f"{len(part):,}",
                    f"{(depths_of(proposals) == first).sum():,}",
                    f"{100 * says:.1f} %",
                    percent(agrees),
                    signed(100 * (says - agrees.value), "+.1f"),
                )
            )
    columns = ("model", "masks read", "reach τ", "of", "mean score", "right", "too sure by (points)")
    title = f"Mask proposals that reach τ = {at:g}, and how often one-token mode writes the same"
    return [*sentences, Table(title=title, columns=columns, rows=rows)] if rows else []


def _worth(proposals: pd.DataFrame) -> tuple[float, Interval]:
    """The mean score, and the share that is what one-token mode writes."""
    return float(proposals["score"].astype(float).mean()), share(int(proposals["agrees"].sum()), len(proposals))


def _cost(book: Book, pairs: Mapping[Model, tuple[Run, Run]], at: float) -> Why:
    """What becomes of the problems whose text a threshold changes."""
    rows, right, still = [], 0, 0
    for model, (base, run) in pairs.items():
        before, after = paired(book.rows(base), book.rows(run))
        changed = before["text"] != after["text"]
        were_right = changed & before["correct"]
        kept = int((were_right & after["correct"]).sum())
        right, still = right + int(were_right.sum()), still + kept
        rows.append(
            (
                book.name(model),
                f"{(after['tokens'].sum() - after['passes'].sum()) / len(after):.1f}",
                percent(share(int(changed.sum()), len(after))),
                f"{int(were_right.sum())}",
                f"{kept}",
                f"{int((changed & ~before['correct'] & after['correct']).sum())}",
            )
        )
    columns = (
        "model",
        "mask tokens a problem",
        "texts changed",
        "right before",
        "of these still",
        "right only now",
    )
    sentence = f"Of {right:,} problems that one-token mode has right and τ = {at:g} changes, {still:,} are still right"
    if still < right / 2:
        sentence += ": what follows a wrong token reads it as given, and is wrong with it"
    table = Table(title=f"What τ = {at:g} changes", columns=columns, rows=rows)
    return [f"{sentence}.", table] if right else [table]


def _families(book: Book, judged: Judged, at: float) -> Why:
    """By family and threshold."""
    tables: list[Table] = []
    sentences = []
    for model, (base, runs) in judged.items():
        losses = {run: _by_family(book, base, run) for run in runs}
        chosen = next(found for run, found in losses.items() if run.threshold == at)
        surely = {task: loss for task, loss in chosen.items() if loss.surely_above(0)}
        ordered = sorted(surely, key=lambda task: -surely[task].value)
        where = ", ".join(f"{task} {lost(surely[task])}" for task in ordered)
        sentences.append(f"{book.name(model)} at τ = {at:g}: surely lost in {where or 'no family'}.")
        rows = [(task, *(_cell(found[task]) for found in losses.values())) for task in chosen]
        title = f"{book.name(model)}, n = {base.n:,}: points lost against one-token mode, by family and τ (* surely)"
        tables.append(Table(title=title, columns=("family", *(f"{run.threshold:g}" for run in runs)), rows=rows))
    return [*sentences, *tables]


def _by_family(book: Book, base: Run, run: Run) -> dict[str, Interval]:
    before, after = book.rows(base), book.rows(run)
    return {
        str(task): paired_difference(after[after["task"] == task], before[before["task"] == task])
        .score_interval()
        .scaled(-1)
        for task in sorted(set(before["task"]))
    }


def _cell(loss: Interval) -> str:
    return signed(loss.value, ".1f") + ("*" if loss.surely_above(0) else "")
