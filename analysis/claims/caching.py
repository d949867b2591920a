"""Claims 4 and 10: the block cache against AR, and rows that do not wait at block ends against the block cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.claims.book import Book, Run, by_turn
from analysis.claims.finding import (
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    Why,
    missing,
    number,
    rate,
    times,
    together,
)
from analysis.claims.published import Published
from analysis.runs.baseline import of_one_size, speed_baselines
from analysis.stats.intervals import Interval
from analysis.stats.pairs import speed_up
from analysis.stats.resampling import tokens_per_forward, tokens_per_second

MANY_ROWS = (4, 8, 16)
"""Batch sizes at which rows that wait for each other cost something."""


def _cache_claimed(published: Published) -> str:
    best = published.best_block_cache()
    slower = [f"{factor:.2f}× at batch {size}" for size, factor in published.without_cache().items() if factor < 0.5]
    return (
        f"A block cache turns tokens per forward into wall-clock: up to {best['speedup']:.2f}× AR, at batch "
        f"{best['batch_size']:.0f} with cache blocks of {best['settings.cache_block_size']:.0f}; without a cache "
        f"{' and '.join(slower)}."
    )


def _cache(evidence: Evidence) -> Finding:
    """Every cache block size against AR in the same turns; judged at the batch size of the paper's best."""
    book, batch = evidence.book, int(evidence.published.best_block_cache()["batch_size"])
    rows, verdicts, measured, behind = [], [], [], []
    why: Why = []
    for runs in by_turn(book.runs).values():
        cached = sorted(
            (run for run in runs if run.decoder == "block_cached" and run.threshold is not None),
            key=lambda run: (-(run.threshold or 0), run.settings["cache_block_size"]),
        )
        plain = cached and _plain(runs, cached[0])
        if not plain:
            continue
        confidence = together(len(cached) * len(plain))
        gains = {
            run.id: [speed_up(book.rows(run), book.rows(other), confidence=confidence) for other in plain]
            for run in cached
        }
        best = max(cached, key=lambda run: gains[run.id][0].value)
        size = best.settings["cache_block_size"]
        measured.append(f"{best.place}: {times(gains[best.id][0])} AR with cache blocks of {size}")
        if best.batch_size == batch:
            verdicts.append(
                Verdict.of(
                    holds=all(gain.surely_above(1) for gain in gains[best.id]),
                    fails=all(gain.surely_below(1) for each in gains.values() for gain in each),
                )
            )
        rows += [(*_setting_and_speed(book, run), times(gains[run.id][0]) + " ←" * (run is best)) for run in cached]
        why += _further(book, best, plain[1:], gains[best.id][1:])
        behind += [*plain, *cached]
    if not rows:
        return missing("timed runs of block_cached and autoregressive in one group")
    columns = ("", "model", "τ", "cache block", "tok/s", "tokens/forward", "× AR")
    table = Table(title="Block cache against AR; ← the best of its batch size", columns=columns, rows=rows)
    return Finding(verdict=Verdict.of_all(verdicts), measured=measured, runs=behind, tables=[table], why=why)


def _plain(runs: Iterable[Run], run: Run) -> list[Run]:
    """The autoregressive runs of the same turns on models of its size: on its own weights first, as in the figures."""
    alike = (
        other
        for other in runs
        if other.decoder == "autoregressive" and of_one_size(other.model.parameters, run.model.parameters)
    )
    return speed_baselines(run.model.fingerprint, alike, lambda other: (other.model.fingerprint, other.id))


def _further(book: Book, best: Run, plain: Sequence[Run], gains: Sequence[Interval]) -> Why:
    """What other models of the same shape say, whose AR takes the same passes."""
    return [
        f"{best.place}: against {book.name(other.model)} in the same turns, a model of this size, it is {times(gain)}. "
        "AR takes the same passes in both: what they differ by is mostly the machine, which no interval knows of."
        for other, gain in zip(plain, gains, strict=True)
    ]


def _setting_and_speed(book: Book, run: Run) -> tuple[str, ...]:
    rows, size = book.rows(run), str(run.settings["cache_block_size"])
    speeds = (rate(tokens_per_second(rows)), number(tokens_per_forward(rows)))
    return (run.place, book.name(run.model), f"{run.threshold:g}", size, *speeds)


def _waiting_claimed(_: Published) -> str:
    return "A cursor per row, the paper's future work, spares rows the wait: faster than with the best block cache."


def _waiting(evidence: Evidence) -> Finding:
    """sliding_window against every cache block size of block_cached at the same τ, in the same turns."""
    book = evidence.book
    rows, verdicts, measured, behind = [], [], [], []
    for runs in by_turn(book.runs).values():
        for run in runs:
            rivals = [other for other in runs if other.decoder == "block_cached" and _same_window(run, other)]
            if run.decoder != "sliding_window" or run.threshold is None or not rivals:
                continue
            confidence = together(len(rivals) * len(MANY_ROWS))
            best = book.fastest(rivals)
            gains = [speed_up(book.rows(run), book.rows(rival), confidence=confidence) for rival in rivals]
            gain = gains[rivals.index(best)]
            rows.append(
                (
                    *(run.place, book.name(run.model), f"{run.threshold:g}"),
                    *(rate(tokens_per_second(book.rows(each))) for each in (run, best)),
                    *(str(best.settings["cache_block_size"]), times(gain)),
                )
            )
            behind += [run, *rivals]
            if run.batch_size in MANY_ROWS:
                verdicts.append(
                    Verdict.of(holds=all(each.surely_above(1) for each in gains), fails=gain.surely_below(1))
                )
                measured.append(
                    f"{run.place}, τ = {run.threshold:g}: {times(gain)} the best block cache "
                    f"({best.settings['cache_block_size']})"
                )
    if not verdicts:
        return missing("timed runs of sliding_window and block_cached at the same τ and a batch size of 4, 8 or 16")
    columns = ("", "model", "τ", "sliding_window tok/s", "block_cached tok/s", "its best block", "speed-up")
    table = Table(title="Without and with waiting at block ends", columns=columns, rows=rows)
    return Finding(verdict=Verdict.of_all(verdicts), measured=measured, runs=behind, tables=[table])


def _same_window(run: Run, other: Run) -> bool:
    names = ("threshold", "score", "block_size", "extra_proposal")
    return run.model == other.model and other.has(**{name: run.settings[name] for name in names})


CLAIMS = (
    Claim(
        number=4,
        title="The block cache turns tokens per forward into wall-clock",
        claimed=_cache_claimed,
        rule="""Judged at the batch size of the paper's largest speed-up, against our own AR in the same turns, on the
            same weights and on every other model of this size. It holds if the best cache block size is surely faster
            than each, and does not hold if every one is surely slower than each. The intervals are right together in
            95 % of cases.""",
        find=_cache,
    ),
    Claim(
        number=10,
        title="Rows need not wait at block ends",
        claimed=_waiting_claimed,
        rule="""Judged at batch sizes of 4, 8 and 16, where measured, at the same τ and in the same turns. It holds if
            sliding_window is surely faster than block_cached with every cache block size, and does not hold if it
            is surely slower than with the best one. The intervals are right together in 95 % of cases.""",
        find=_waiting,
        ours=True,
    ),
)
