"""Rules on accuracy: 1 one-token mode, 2 the SFT loss, 3 thresholds, 5 scores, 8 block diffusion, 11 B + 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from analysis.claims.evidence import DIFFUSION, Evidence, GreedyRuns, Run, on_each_kind, on_same_problems
from analysis.claims.judging import (
    MARGIN,
    ClaimVerdict,
    Finding,
    among,
    claim,
    listed,
    lost,
    number,
    percent,
    points,
    times,
    together,
    verdict_of,
    worst,
)
from analysis.claims.published import PAPER
from analysis.runs.schema import RunModel as Model
from analysis.stats.frontiers import speed_at_loss
from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.stats.pairs import contrast, identical_texts, paired_difference
from analysis.stats.resampling import percentiles

COLLAPSE = 5.0
"""Points that a model must be behind AR to have collapsed."""
AT = 0.95
"""The threshold that the paper reports."""
SCORES = ("probability", "margin", "entropy")
EQUAL_LOSS = 2.0
"""Points of accuracy at which tokens per forward of different scores are compared."""
ALIKE = 5.0
"""Scores are similar where tokens per forward at equal loss differ by less than this many percent."""
Sweep = tuple[Run, list[Run]]
_mean, _AT, _WITHOUT = PAPER.one_token_mean, PAPER.at_threshold, "MARS without SFT loss"


@claim(
    1,
    "One-token mode is as accurate as AR, even as AR trained for twice as long",
    claimed=f"""One-token mode of MARS (B = 4) reaches {_mean("MARS", 4)} against {_mean("AR SFT (5 epochs)")} of AR
    SFT in the mean of six benchmarks; AR SFT for twice the epochs falls to {_mean("AR SFT (10 epochs)")}.""",
    rule=f"""Each MARS model with the SFT loss is compared with the AR model it started from and with an AR model
    that saw twice as many conversations, once on each benchmark that both ran, on most of its problems. It
    holds if every interval lies above −{MARGIN:g} point and fails if one lies below 0. A gated adapter, whose
    texts are AR's by construction, holds where they are all the same; it needs no second AR model and makes no
    interval wider. In bfloat16 a model writes other texts on another CPU, so both runs are of one.""",
)
def one_token(evidence: Evidence) -> Finding:
    """Each MARS model against the AR model it started from and, where measured, the compute-matched AR model.

    Once for each kind of problems that both were run on, on the most of them.
    """
    runs = evidence.runs
    finding = Finding(without="one-token runs of a MARS model and of an AR model on the same problems")
    pairs = [
        (role, run, rival)
        for model in runs.full_mars
        for role, other in (("start", runs.start_of(model)), ("compute-matched", runs.compute_matched(model)))
        if other
        for run, rival in on_each_kind(runs.one_token(model), runs.one_token(other))
    ]
    if not pairs:
        return finding
    pairs.sort(key=lambda pair: bool(pair[1].harness))  # our own problems first, in a table of theirs
    same = [_same_by_construction(runs, run, rival) for _, run, rival in pairs]
    confidence = together(same.count(False))
    undecided = 0
    for (role, run, rival), by_construction in zip(pairs, same, strict=True):
        difference = paired_difference(runs.rows(run), runs.rows(rival))
        interval = difference.score_interval(confidence)
        holds = by_construction or interval.low >= -MARGIN
        verdict = verdict_of(holds=holds, fails=interval.surely_below(0))
        undecided += verdict is ClaimVerdict.OPEN
        finding.add(
            {
                "MARS": _with_accuracy(runs, run),
                "AR": _with_accuracy(runs, rival, f" ({role})"),
                **({"problems": f"{run.n:,} of {run.tasks[0]}"} if run.harness else {}),
                **({"CPU of both": run.units} if run.dtype == "bfloat16" else {}),  # on which the texts depend
            },
            {
                "difference (points)": points(interval),
                "gained / lost": f"{difference.gained} / {difference.lost}",
                "McNemar p": f"{difference.p_value:.2g}",
            },
            verdict,
            (run, rival),
        )
    shown = next((place for place, row in enumerate(finding.judged) if row.verdict is ClaimVerdict.FAILS), 0)
    _, run, rival = pairs[shown]
    alike = all(same)  # so that more training of AR has nothing to say
    texts = f"every text is AR's ({percent(identical_texts(runs.rows(run), runs.rows(rival)))}); " if alike else ""
    finding.headline = f"{texts}{runs.name(run.model)}: {points(runs.points(run, rival, confidence))} points"
    if undecided:
        finding.headline += among(undecided, len(pairs), "undecided")
    if not alike and all(role == "start" for role, _, _ in pairs):
        finding.missing = "a compute-matched AR"
    return finding


def _with_accuracy(runs: GreedyRuns, run: Run, role: str = "") -> str:
    return f"{runs.name(run.model)}{role}, {percent(runs.accuracy(run))}"


def _same_by_construction(runs: GreedyRuns, run: Run, rival: Run) -> bool:
    """True of a gated adapter and its base, where every text is the same: chance cannot make them differ."""
    of_base = run.model.base == rival.model.fingerprint
    return of_base and identical_texts(runs.rows(run), runs.rows(rival)).value == 1


@claim(
    2,
    "The SFT loss keeps larger blocks from losing accuracy",
    claimed=f"""From B = 4 to 16 the mean falls from {_mean(_WITHOUT, 4)} to {_mean(_WITHOUT, 16)} without the SFT
    loss, and from {_mean("MARS", 4)} to {_mean("MARS", 16)} with it.""",
    rule=f"""It holds if accuracy surely falls from the smallest to the largest block without the SFT loss, and
    surely by more than with it. It fails if it surely falls by less than with it, or surely by less than
    {MARGIN:g} point.""",
)
def sft_loss(evidence: Evidence) -> Finding:
    """From the smallest to the largest block, with and without the SFT loss, of models that saw equally much."""
    runs = evidence.runs
    with_loss: dict[int, list[Run]] = {}
    without: dict[int, list[Run]] = {}
    for model in runs.ablations():
        if model.block_size is not None and (own := runs.one_token(model)):
            (with_loss if model.is_full_mars else without).setdefault(model.block_size, []).extend(own)
    sizes = sorted(with_loss.keys() & without.keys())
    choices = [choice[size] for choice in (with_loss, without) for size in sizes]
    chosen = on_same_problems(*choices) if len(sizes) > 1 else None
    finding = Finding(
        without="one-token runs, on the same problems, of MARS models of two block sizes, each with and without the "
        "loss"
    )
    if chosen is None:
        return finding
    kept, degraded = chosen[: len(sizes)], chosen[len(sizes) :]
    fall, small_fall = (runs.points(side[0], side[-1]) for side in (degraded, kept))
    parts = [(1.0, degraded[0]), (-1.0, degraded[-1]), (-1.0, kept[0]), (1.0, kept[-1])]
    kept_back = contrast([(factor, runs.rows(run)) for factor, run in parts])

    def accuracies(side: Sequence[Run]) -> str:
        return ", ".join(f"{percent(runs.accuracy(run))} (B = {size})" for size, run in zip(sizes, side, strict=True))

    falls = verdict_of(holds=fall.surely_above(0), fails=fall.surely_below(MARGIN))
    keeps = verdict_of(holds=kept_back.surely_above(0), fails=kept_back.surely_below(0))
    finding.add(
        {"models": "without the SFT loss", "accuracy": accuracies(degraded)},
        {"points lost": lost(fall)},
        falls,
        chosen,
    )
    finding.add({"models": "with it", "accuracy": accuracies(kept)}, {"points lost": lost(small_fall)})
    finding.add({"models": "kept by the loss", "accuracy": ""}, {"points lost": lost(kept_back)}, keeps)
    finding.headline = (
        f"B = {sizes[0]} to {sizes[-1]}: {lost(fall)} points lost without the loss, {lost(small_fall)} with it"
    )
    return finding


@claim(
    3,
    "Lowering τ trades little accuracy for speed, smoothly",
    claimed=f"""A smooth frontier; τ = {AT:g} costs {_AT["loss"].min():.1f} to {_AT["loss"].max():.1f} points of the
    mean for {_AT["tokens_per_forward"].min():.2f} to {_AT["tokens_per_forward"].max():.2f} tokens per forward, over
    models and
    block sizes.""",
    rule=f"""Each MARS model with the SFT loss is judged. It holds if every step down in τ adds tokens per forward
    and τ = {AT:g} surely loses at most as many points to one-token mode, and gains at least as many tokens per
    forward, as the paper's extremes. It fails if a step surely takes tokens away, or τ = {AT:g} surely loses
    more or gains less.""",
)
def frontier(evidence: Evidence) -> Finding:
    """Per MARS model: the cost and gain of τ = 0.95, and whether each step down in τ adds tokens per forward."""
    runs, most, least = evidence.runs, _AT["loss"].max(), _AT["tokens_per_forward"].min()
    finding = Finding(without=f"runs of sliding_window at several τ, {AT:g} among them, and in one-token mode")
    swept = {
        model: (sweep[0], at, sweep[1])
        for model in runs.full_mars
        if (sweep := runs.sweep(model)) and len(sweep[1]) > 1
        if (at := next((run for run in sweep[1] if run.threshold == AT), None))
    }
    confidence, headlines = together(2 * len(swept)), list[str]()
    for model, (base, at, lower) in swept.items():
        loss, speed = runs.points(at, base, confidence).scaled(-1), runs.forward(at, confidence)
        steps = [runs.forward_gain(after, before) for before, after in pairwise([base, *lower])]
        rises = all(step.value > 1 for step in steps)
        parts = {
            f"loses more than {most:.1f} points": verdict_of(holds=loss.high <= most, fails=loss.surely_above(most)),
            f"gains less than {least:.2f} tokens/forward": verdict_of(
                holds=speed.low >= least, fails=speed.surely_below(least)
            ),
            "takes tokens away at a step": verdict_of(holds=rises, fails=any(step.surely_below(1) for step in steps)),
        }
        fails = listed([what for what, verdict in parts.items() if verdict is ClaimVerdict.FAILS])
        finding.add(
            {"model": runs.name(model)},
            {
                f"points lost to one-token mode at τ = {AT:g}": lost(loss),
                "tokens/forward": number(speed),
                "steps down in τ": f"{len(lower)}, {'each adds' if rises else 'not every one adds'} tokens",
                "fails as it": fails,
            },
            worst(parts.values()),
            (base, *lower),
        )
        measured = f"{lost(loss)} points lost to one-token mode, {number(speed)} tokens/forward"
        headlines.append(f"{runs.name(model)}, τ = {AT:g}: {measured}{f', fails as it {fails}' * bool(fails)}")
    decided = [line for line, row in zip(headlines, finding.judged, strict=True) if row.verdict is finding.verdict]
    finding.headline = decided[0] if decided else ""
    return finding


@claim(
    8,
    "Block diffusion from the same start falls far behind AR",
    claimed=f"""Block diffusion (B = 4) from the same start falls to {_mean("Block Diffusion", 4)} from
    {_mean("AR SFT (5 epochs)")} of AR SFT in the mean; MARS at B = 4 has {_mean("MARS", 4)}.""",
    rule=f"""It holds if block diffusion, at its most accurate setting, is surely more than {COLLAPSE:g} points
    behind the AR model, and fails if it is surely less.""",
)
def collapse(evidence: Evidence) -> Finding:
    """Block diffusion at its most accurate setting against the AR model and against MARS of its block size."""
    runs = evidence.runs
    finding = Finding(
        without="runs of a block diffusion model and of the AR model it started from on the same problems"
    )

    def compare(ours: Run, other: Run, verdict: ClaimVerdict | None = None) -> None:
        finding.add(
            {"block diffusion": _with_accuracy(runs, ours), "against": _with_accuracy(runs, other)},
            {"difference (points)": points(runs.points(ours, other))},
            verdict,
            (ours, other),
        )

    for model in runs.models(lambda model: model.stage == DIFFUSION):
        start = runs.start_of(model)
        tried = sorted(runs.of(model), key=lambda run: (-run.n, -runs.accuracy(run).value))
        found = start and on_same_problems(tried, runs.one_token(start))
        if not found:
            continue
        ours, ar = found
        change = runs.points(ours, ar)
        finding.headline = finding.headline or f"{points(change)} points against {runs.name(ar.model)}"
        compare(ours, ar, verdict_of(holds=change.surely_below(-COLLAPSE), fails=change.surely_above(-COLLAPSE)))
        for other in runs.full_mars:
            alike = (other.block_size, other.examples) == (model.block_size, model.examples)
            if alike and (pair := on_same_problems([ours], runs.one_token(other))):
                compare(ours, pair[1])
    return finding


@claim(
    5,
    "Probability, margin and entropy work equally well as scores",
    claimed="Probability, margin and entropy as acceptance score give similar frontiers.",
    rule=f"""Tokens per forward are read off each frontier at a loss of {EQUAL_LOSS:g} points against one-token
    mode, interpolated between thresholds, of the most problems that all scores have. It holds if margin and
    entropy surely differ by less than {ALIKE:g} % from probability, and fails if one surely differs by
    more. Where no threshold tried of a score surely loses so much, there is nothing to compare.""",
)
def scores(evidence: Evidence) -> Finding:
    """Tokens per forward at an equal loss, interpolated between thresholds, for each score against probability."""
    runs = evidence.runs
    for model in runs.full_mars:
        tried = [runs.with_threshold(model, score=score) for score in SCORES]
        common = set.intersection(*({run.problem_set for run in each} for each in tried))
        largest = sorted(tried[0], key=lambda run: run.n, reverse=True)
        for problems in dict.fromkeys(run.problem_set for run in largest if run.problem_set in common):
            beside = [run for run in largest if run.problem_set == problems]
            found = {score: sweep for score in SCORES if (sweep := runs.sweep(model, score, beside))}
            if len(found) == len(SCORES) and all(len(swept) > 1 for _, swept in found.values()):
                return _compared_scores(runs, model, found)
    return Finding(without="runs of one MARS model at several thresholds of each of probability, margin and entropy")


def _compared_scores(runs: GreedyRuns, model: Model, sweeps: Mapping[str, Sweep]) -> Finding:
    base = sweeps["probability"][0]
    reached, changes = _at_equal_loss(runs, sweeps)
    compared = {score: change for score, change in changes.items() if change}
    told = [f"{score} {points(change)} % tokens/forward" for score, change in compared.items()]
    short = [score for score, speed in reached.items() if speed is None]
    finding = Finding(headline="; ".join([*told, *_short_of_the_loss(short)]))
    for score, speed in reached.items():
        swept, change = sweeps[score][1], changes.get(score)
        verdict = _alike(change) if change else ClaimVerdict.OPEN
        finding.add(
            {"score": score, "thresholds": ", ".join(f"{run.threshold:g}" for run in swept)},
            {
                f"tokens/forward at {EQUAL_LOSS:g} points lost": number(speed) if speed else "not reached",
                "against probability": f"{points(change)} %" if change else "",
            },
            verdict if score in changes else None,
            [base, *swept],
        )
    return finding


def _short_of_the_loss(scores: Sequence[str]) -> list[str]:
    if not scores:
        return []
    whose = f" of {listed(scores)}" if len(scores) < len(SCORES) else ""
    return [f"no threshold tried{whose} surely loses {EQUAL_LOSS:g} points"]


def _alike(change: Interval) -> ClaimVerdict:
    return verdict_of(
        holds=change.surely_above(-ALIKE) and change.surely_below(ALIKE),
        fails=change.surely_above(ALIKE) or change.surely_below(-ALIKE),
    )


def _at_equal_loss(
    runs: GreedyRuns, sweeps: Mapping[str, Sweep]
) -> tuple[dict[str, Interval | None], dict[str, Interval | None]]:
    """Tokens per forward of each score, and the percent by which the others differ from probability.

    None where a frontier ends before the loss. The intervals of the differences are right together.
    """
    base = runs.rows(sweeps["probability"][0])
    reached = {
        score: speed_at_loss([runs.rows(run) for run in swept], base, EQUAL_LOSS)
        for score, (_, swept) in sweeps.items()
    }
    own_value, own_drawn = reached["probability"]
    confidence = together(len(sweeps) - 1)
    changes = {
        score: _reaching(100 * (value / own_value - 1), 100 * (drawn / own_drawn - 1), confidence)
        for score, (value, drawn) in reached.items()
        if score != "probability"
    }
    return {score: _reaching(value, drawn) for score, (value, drawn) in reached.items()}, changes


def _reaching(value: float, drawn: np.ndarray, confidence: float = CONFIDENCE) -> Interval | None:
    """The interval; None if the loss is not reached as measured, or in more resamples than an interval leaves out."""
    kept = drawn[~np.isnan(drawn)]
    if np.isnan(value) or len(kept) < confidence * len(drawn):
        return None
    return percentiles(value, kept, confidence)


@claim(
    11,
    "The B+1-th proposal adds tokens at the same τ",
    claimed="""Training covers B + 1 predictions for B masks; the published sampler drops the last. Keeping it adds
    tokens.""",
    rule="""It holds if it surely adds tokens per forward at every τ and surely loses accuracy nowhere. It fails if
    it surely loses accuracy at some τ, or surely adds nothing.""",
    ours=True,
)
def extra(evidence: Evidence) -> Finding:
    """The same model and τ with and without the B+1-th proposal."""
    runs = evidence.runs
    finding = Finding(without="runs at the same τ with and without the B+1-th proposal, on the same problems")
    pairs = [pair for model in runs.full_mars for pair in _extra_pairs(runs, model)]
    confidence = together(2 * len(pairs))
    for without, offered in pairs:
        gain = runs.forward_gain(offered, without, confidence)
        change = runs.points(offered, without, confidence)
        adds = verdict_of(holds=gain.surely_above(1), fails=gain.high <= 1)
        finding.add(
            {"model": runs.name(without.model), "τ": f"{without.threshold:g}"},
            {"× tokens/forward": times(gain), "accuracy (points)": points(change)},
            worst([adds, verdict_of(holds=True, fails=change.surely_below(0))]),
            (without, offered),
        )
    if not pairs:
        return finding
    first, holding = finding.comparisons[0], sum(row.verdict is ClaimVerdict.HOLDS for row in finding.comparisons)
    finding.headline = (
        f"{first.compared['model']}, τ = {first.compared['τ']}: {first.measured['× tokens/forward']} "
        f"tokens/forward{among(holding, len(pairs), 'hold')}"
    )
    return finding


def _extra_pairs(runs: GreedyRuns, model: Model) -> list[tuple[Run, Run]]:
    found = []
    offered = runs.with_threshold(model, extra=True)
    for threshold in sorted({run.threshold or 0.0 for run in offered}, reverse=True):
        choices = [
            [run for run in runs.with_threshold(model, extra=extra) if run.threshold == threshold]
            for extra in (False, True)
        ]
        if pair := on_same_problems(*choices):
            found.append((pair[0], pair[1]))
    return found
