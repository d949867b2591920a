"""Claims about mask proposals: 5 the score, 9 exact decoding, 11 the B+1-th proposal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.claims.evidence import Evidence, GreedyRuns, Run, by_turn, on_same_problems
from analysis.claims.judging import (
    MARGIN,
    Claim,
    ClaimVerdict,
    Finding,
    among,
    faster,
    listed,
    number,
    points,
    rate,
    times,
    together,
    verdict_of,
    worst,
)
from analysis.runs.schema import RunModel as Model
from analysis.stats.frontiers import speed_at_loss
from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.stats.pairs import identical_texts, paired, speed_up_of_means
from analysis.stats.resampling import percentiles
from mars import decoders
from mars.decoders import BASELINE, EXACT

SCORES = ("probability", "margin", "entropy")
EQUAL_LOSS = 2.0
"""Points of accuracy at which tokens per forward of different scores are compared."""
ALIKE = 5.0
"""Scores are similar where tokens per forward at equal loss differ by less than this many percent."""
Sweep = tuple[Run, list[Run]]


# Claim 5


def _scores(evidence: Evidence) -> Finding:
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


# Claim 9


def _exact(evidence: Evidence) -> Finding:
    """Texts and passes of each MARS model, then wall-clock, which is shown and not judged, and benchmarks."""
    runs = evidence.runs
    finding = Finding(without=f"runs of {EXACT}, of one-token mode and of several τ on the same problems")
    for model in runs.full_mars:
        _compare_passes(finding, runs, model)
    if not finding.comparisons:
        finding.missing = f"judged runs of {EXACT}, of one-token mode and of several τ"
    _compare_wall_clock(finding, runs)
    _compare_benchmarks(finding, runs)
    exact = [row.measured for row in finding.comparisons if "texts" in row.measured]
    if not exact:
        return Finding(without=finding.without)
    finding.headline = f"{exact[0]['texts']} texts identical; {exact[0]['tokens/forward']} tokens/forward"
    return finding


def _compare_passes(finding: Finding, runs: GreedyRuns, model: Model) -> None:
    """The best layout of this model against its fastest τ within the margin, on the same problems."""
    pairs = [pair for run in runs.of(model, EXACT) if (pair := on_same_problems([run], runs.one_token(model)))]
    swept = runs.sweep(model, beside=[run for run, _ in pairs])
    if not pairs or swept is None:
        return
    base, thresholds = swept
    comparable = [run for run, _ in pairs if run.problem_set == base.problem_set]
    best = max(comparable, key=lambda run: runs.forward(run).value)
    within = [run for run in thresholds if -runs.points(run, base).value <= MARGIN]
    rival = max([base, *within], key=lambda run: runs.forward(run).value)
    checked = [(run.n, _identical(runs, run, plain)) for run, plain in pairs if _comparable_texts(run)]
    texts, same = (sum(column) for column in zip(*checked, strict=True)) if checked else (0, 0)
    gain = runs.forward_gain(best, rival)
    finding.add(
        {"model": runs.name(model)},
        {
            "texts": f"{same:,} of {texts:,}",
            "tokens/forward": f"{number(runs.forward(best))} ({best.settings.layout})",
            "gain": f"{times(gain)} over {_threshold_words(rival)}",
        },
        worst([_same_texts(same, texts), faster(gain)]),
        [*(run for pair in pairs for run in pair), *thresholds],
    )


def _identical(runs: GreedyRuns, run: Run, plain: Run) -> int:
    """How many of its texts are those of the plain run."""
    return round(identical_texts(runs.rows(run), runs.rows(plain)).value * run.n)


def _comparable_texts(run: Run) -> bool:
    """False where near-ties may flip with the shape of a pass: in bfloat16 on a GPU. On a CPU passes are invariant."""
    return run.dtype == "float32" or run.device == "cpu"


def _compare_benchmarks(finding: Finding, runs: GreedyRuns) -> None:
    """Exact decoding against AR on answers that nobody judged (Spec-Bench): texts, passes and its own speed-up."""
    for turn in by_turn(runs.unjudged):
        plain = next((run for run in turn if run.decoder == BASELINE), None)
        for run in turn:
            if plain is None or run.decoder == BASELINE or not decoders.TABLE[run.decoder].exact:
                continue
            same = _identical(runs, run, plain)
            layout = run.settings.layout if run.decoder == EXACT else run.decoder
            finding.add(
                {"benchmark": run.tasks[0], "batch": str(run.batch_size), "layout": layout},
                {
                    "texts": f"{same:,} of {run.n:,}",
                    "tokens/forward": number(runs.forward(run)),
                    "× AR, mean of questions": times(speed_up_of_means(*paired(runs.rows(run), runs.rows(plain)))),
                    "CPU": run.units,
                },
                _same_texts(same, run.n) if _comparable_texts(run) else None,
                (run, plain),
            )


def _same_texts(same: int, texts: int) -> ClaimVerdict:
    return verdict_of(holds=texts > 0, fails=same < texts)


def _compare_wall_clock(finding: Finding, runs: GreedyRuns) -> None:
    """Exact decoding against the fastest setting within the margin, in the same turns, by batch size."""
    for turn in by_turn(runs.all):
        for model in dict.fromkeys(run.model for run in turn if run.decoder == EXACT):
            own = [run for run in turn if run.model == model]
            exact = [run for run in own if run.decoder == EXACT]
            rivals = [run for run in own if run.decoder == "sliding_window" and _within(runs, run)]
            rivals += [run for run in own if run.decoder == BASELINE]
            if not rivals:
                continue
            best, rival = runs.fastest(exact), runs.fastest(rivals)
            clock, batch = f"{runs.name(model)}, {best.group}", str(best.batch_size)
            finding.add(
                {"wall-clock": clock, "CPU": best.units, "batch": batch, "layout": best.settings.layout},
                {
                    "tokens/s": rate(runs.rate(best)),
                    f"fastest within {MARGIN:g} point": _threshold_words(rival),
                    "its tokens/s": rate(runs.rate(rival)),
                    "speed-up": times(runs.time_gain(best, rival, together(len(exact) * len(rivals)))),
                },
                runs=[best, *rivals],
            )


def _within(runs: GreedyRuns, run: Run) -> bool:
    """True if this setting loses at most the margin, in its runs on most problems."""
    same = runs.where(
        lambda other: other.decoder == run.decoder and other.dtype == run.dtype and other.same_window(run)
    )
    pair = on_same_problems(same, runs.one_token(run.model))
    return pair is not None and -runs.points(pair[0], pair[1]).value <= MARGIN


def _threshold_words(run: Run) -> str:
    """One-token mode or τ, and the block size where it differs from the training's."""
    size = run.settings.block_size
    other = "" if run.model.block_size in (None, size) else f", B = {size}"
    return "one-token mode" if run.one_token else f"τ = {run.threshold:g}{other}"


# Claim 11


def _extra(evidence: Evidence) -> Finding:
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


CLAIMS = (
    Claim(
        number=5,
        title="Probability, margin and entropy work equally well as scores",
        claimed=lambda _: "Probability, margin and entropy as acceptance score give similar frontiers.",
        rule=f"""Tokens per forward are read off each frontier at a loss of {EQUAL_LOSS:g} points against one-token
            mode, interpolated between thresholds, of the most problems that all scores have. It holds if margin and
            entropy surely differ by less than {ALIKE:g} % from probability, and fails if one surely differs by
            more. Where no threshold tried of a score surely loses so much, there is nothing to compare.""",
        find=_scores,
    ),
    Claim(
        number=9,
        title=f"Exact decoding keeps the text, in fewer passes than any τ that loses at most {MARGIN:g} point",
        claimed=lambda _: (
            "Mask proposals that the next pass verifies give the text of one-token mode, in fewer passes than any "
            f"τ that loses at most {MARGIN:g} point, and at small batches in less time."
        ),
        rule=f"""It holds if every text equals that of one-token mode (but for bfloat16 on a GPU, where near-ties may
            flip) and the best layout surely takes fewer passes than the fastest τ that loses at most {MARGIN:g}
            point as measured. It fails if a text differs or it surely takes more passes. Wall-clock, against
            the fastest such τ or AR in the same turns, is shown but not judged.""",
        find=_exact,
        ours=True,
    ),
    Claim(
        number=11,
        title="The B+1-th proposal adds tokens at the same τ",
        claimed=lambda _: (
            "Training covers B + 1 predictions for B masks; the published sampler drops the last. Keeping it adds "
            "tokens."
        ),
        rule="""It holds if it surely adds tokens per forward at every τ and surely loses accuracy nowhere. It fails if
            it surely loses accuracy at some τ, or surely adds nothing.""",
        find=_extra,
        ours=True,
    ),
)
