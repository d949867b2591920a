"""Claims 6 and 7: decoding with drafts, from nothing (Jacobi) and from a smaller model."""

from __future__ import annotations

from analysis.claims.book import AR, MARS, Book, Run, by_turn, on_same_problems
from analysis.claims.finding import (
    Claim,
    Evidence,
    Finding,
    Table,
    Verdict,
    Why,
    missing,
    number,
    percent,
    points,
    rate,
    times,
    together,
)
from analysis.claims.published import Published
from analysis.stats.pairs import identical_texts, paired_difference, speed_up
from analysis.stats.resampling import tokens_per_forward, tokens_per_second

LITTLE = 1.25
"""Tokens per forward up to which a training-free decoder is said to gain little."""


def _jacobi_claimed(published: Published) -> str:
    table = published.means("jacobi_baseline").set_index("decoder")
    speeds, accuracies = table["tokens_per_forward"], table["accuracy"]
    return (
        f"Jacobi decoding of the AR model reaches {speeds['jacobi']:.2f} tokens per forward (mean "
        f"{accuracies['jacobi']:.1f} against {accuracies['autoregressive']:.1f}), MARS at τ = 0.95 "
        f"{speeds['sliding_window']:.2f}."
    )


def _jacobi(evidence: Evidence) -> Finding:
    """The best number of draft tokens on each AR model."""
    book = evidence.book
    rows, verdicts, measured, behind = [], [], [], []
    for model in book.models(lambda model: model.stage == AR):
        found: dict[int, list[Run]] = {}
        for run in book.of(model, "jacobi"):
            pair = on_same_problems([run], book.one_token(model))
            if pair:
                found.setdefault(run.settings["draft_tokens"], pair)
        confidence = together(len(found))
        gains = {k: tokens_per_forward(book.rows(run), confidence) for k, (run, _) in found.items()}
        for k, (run, plain) in sorted(found.items()):
            same = identical_texts(book.rows(run), book.rows(plain))
            difference = paired_difference(book.rows(run), book.rows(plain)).score_interval()
            rows.append((book.name(model), str(k), f"{run.n:,}", number(gains[k]), percent(same), points(difference)))
            behind += [run, plain]
        if gains:
            best = max(gains, key=lambda k: gains[k].value)
            verdicts.append(Verdict.of(holds=gains[best].high <= LITTLE, fails=gains[best].low > LITTLE))
            measured.append(f"{book.name(model)}: {number(gains[best])} tokens per forward with {best} draft tokens")
    if not rows:
        return missing("runs of jacobi and of autoregressive on one AR model and the same problems")
    columns = ("model", "draft tokens", "n", "tokens/forward", "identical to AR", "accuracy against AR (points)")
    table = Table(title="Jacobi decoding", columns=columns, rows=rows)
    return Finding(verdict=Verdict.of_all(verdicts), measured=measured, runs=behind, tables=[table])


def _speculative_claimed(published: Published) -> str:
    target, both = published.speculative(AR, MARS), published.speculative(MARS, MARS)
    return f"Against AR as draft and target: {target:.2f}× with a MARS target, {both:.2f}× with both."


def _pair_of(run: Run) -> str:
    """Draft → target by stage, as the paper pairs them."""
    stages = ["AR" if model is not None and model.stage == AR else "MARS" for model in (run.draft, run.model)]
    return " → ".join(stages)


def _is_papers(run: Run) -> bool:
    """A MARS target goes on with its own masks, an AR target has none."""
    return run.decoder == "speculative" and run.settings["continuation"] == (run.model.stage != AR)


def _speculative(evidence: Evidence) -> Finding:
    """The fastest setting of each pair against that of AR → AR in the same turns."""
    book, wanted = evidence.book, ("AR → MARS", "MARS → MARS")
    rows, verdicts, measured, behind = [], [], [], []
    why: Why = []
    for runs in by_turn(filter(_is_papers, book.runs)).values():
        pairs: dict[str, list[Run]] = {}
        for run in runs:
            pairs.setdefault(_pair_of(run), []).append(run)
        if "AR → AR" not in pairs or not any(pair in pairs for pair in wanted):
            continue
        base = book.fastest(pairs["AR → AR"])
        for pair in ("AR → AR", *wanted):
            if pair not in pairs:
                verdicts.append(Verdict.MISSING)
                continue
            run = book.fastest(pairs[pair])
            gain = speed_up(book.rows(run), book.rows(base), confidence=together(2))
            change = paired_difference(book.rows(run), book.rows(base)).score_interval()
            rows.append((run.place, pair, *_setting_and_speed(book, run), times(gain), points(change)))
            behind.append(run)
            if pair in wanted:
                verdicts.append(Verdict.of(holds=gain.surely_above(1), fails=gain.surely_below(1)))
                measured.append(f"{pair} ({run.place}): {times(gain)}")
                why.append(f"{pair} ({run.place}): {_tokens_and_time(book, run, base)}")
    if not rows:
        return missing("timed runs of speculative with an AR draft on an AR target and with MARS in one group")
    columns = ("", "draft → target", "setting", "tok/s", "tokens/target pass", "× AR → AR", "accuracy (points)")
    table = Table(title="The fastest setting of each pair", columns=columns, rows=rows)
    return Finding(verdict=Verdict.of_all(verdicts), measured=measured, runs=behind, tables=[table], why=why)


def _tokens_and_time(book: Book, run: Run, base: Run) -> str:
    """A speed-up taken apart: what a pass of the target gains, and what it takes with the drafts before it."""
    ours, theirs = book.rows(run), book.rows(base)
    gain = speed_up(ours, theirs, "tokens_per_forward")
    took, takes = (1000 * rows["seconds"].sum() / rows["passes"].sum() for rows in (theirs, ours))
    return (
        f"a pass of the target gains {times(gain)} the tokens of AR → AR, and with the drafts before it takes "
        f"{takes / took:.2f}× the time: {takes:.2f} ms against {took:.2f} ms."
    )


def _setting_and_speed(book: Book, run: Run) -> tuple[str, str, str]:
    rows, threshold = book.rows(run), "" if run.threshold is None else f", τ = {run.threshold:g}"
    setting = f"K = {run.settings['draft_tokens']}{threshold}"
    return setting, rate(tokens_per_second(rows)), number(tokens_per_forward(rows))


CLAIMS = (
    Claim(
        number=6,
        title="Jacobi decoding gains little",
        claimed=_jacobi_claimed,
        rule=f"""It holds if the best number of draft tokens surely gives no more than {LITTLE:g} tokens per forward,
            and does not hold if it surely gives more.""",
        find=_jacobi,
    ),
    Claim(
        number=7,
        title="Speculative decoding gains from MARS",
        claimed=_speculative_claimed,
        rule="""Each pair at its fastest setting in the same turns. It holds if a MARS target, and MARS as draft and
            target, are both surely faster than AR → AR, and does not hold if one is surely slower.""",
        find=_speculative,
    ),
)
