"""Exact decoding against the fastest τ that loses little, on the clock: in the same turns, by batch size."""

from __future__ import annotations

from analysis.claims.book import Book, Run, by_turn, on_same_problems
from analysis.claims.finding import MARGIN, Table, rate, times, together
from analysis.stats.pairs import speed_up
from analysis.stats.resampling import tokens_per_second

EXACT = "self_speculative"
COLUMNS = (
    *("model", "group", "batch size", "layout", "tok/s"),
    *(f"fastest within {MARGIN:g} point", "tok/s", "speed-up"),
)


def race(book: Book) -> tuple[list[str], list[Run], list[Table]]:
    """By batch size: what was measured in words, the runs behind it, and the table of it, if there are such runs."""
    rows, measured, behind = [], [], []
    wins: dict[tuple[str, str], dict[int, bool]] = {}
    for runs in by_turn(book.runs).values():
        for model in {run.model: None for run in runs if run.decoder == EXACT}:
            own = [run for run in runs if run.model == model]
            exact = book.fastest([run for run in own if run.decoder == EXACT])
            rivals = [run for run in own if run.decoder == "sliding_window" and within(book, run)]
            rivals += [run for run in own if run.decoder == "autoregressive"]
            if not rivals:
                continue
            rival = book.fastest(rivals)
            layouts = sum(run.decoder == EXACT for run in own)
            gain = speed_up(book.rows(exact), book.rows(rival), confidence=together(layouts * len(rivals)))
            rows.append(
                (
                    *(book.name(model), str(exact.group), str(exact.batch_size), exact.settings["layout"]),
                    *(rate(tokens_per_second(book.rows(exact))), threshold_words(rival)),
                    *(rate(tokens_per_second(book.rows(rival))), times(gain)),
                )
            )
            behind += [exact, *rivals]
            wins.setdefault((book.name(model), str(exact.group)), {})[exact.batch_size] = gain.surely_above(1)
    for (name, group), won in wins.items():
        measured.append(f"{name}, wall-clock ({group}): {_up_to(won)}")
    table = Table(title="Wall-clock against the fastest τ within the margin", columns=COLUMNS, rows=rows)
    return measured, list(dict.fromkeys(behind)), [table] if rows else []


def _up_to(won: dict[int, bool]) -> str:
    """From the smallest batch size on, as far as exact decoding surely wins."""
    last = None
    for size in sorted(won):
        if not won[size]:
            break
        last = size
    tried = ", ".join(map(str, sorted(won)))
    if last is None:
        return f"not surely faster at batch {min(won)} (tried {tried})"
    return f"surely faster up to batch {last} (tried {tried})"


def within(book: Book, run: Run) -> bool:
    """Whether this setting loses no more than the margin, by the runs of it on most problems."""
    names = ("threshold", "score", "block_size", "extra_proposal")
    same = book.where(
        lambda other: (
            other.model == run.model
            and other.decoder == run.decoder
            and other.dtype == run.dtype
            and other.has(**{name: run.settings[name] for name in names})
        )
    )
    pair = on_same_problems(same, book.one_token(run.model))
    return pair is not None and loss(book, pair[0], pair[1]) <= MARGIN


def loss(book: Book, run: Run, base: Run) -> float:
    """Points that a run is behind another on the same problems, as measured."""
    rows, before = book.rows(run), book.rows(base)
    return 100 * float(before["correct"].mean() - rows["correct"].mean())


def threshold_words(run: Run) -> str:
    """One-token mode or τ, and the block size where it is not that of the training."""
    size = run.settings["block_size"]
    other = "" if run.model.block_size in (None, size) else f", B = {size}"
    return "one-token mode" if run.one_token else f"τ = {run.threshold:g}{other}"
