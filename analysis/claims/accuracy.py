"""Claims about accuracy: 1 one-token mode, 2 the SFT loss, 3 the threshold, 8 block diffusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from analysis.claims.evidence import DIFFUSION, MARS, Evidence, GreedyRuns, Published, Run, on_same_problems
from analysis.claims.judging import (
    MARGIN,
    Claim,
    ClaimVerdict,
    Comparison,
    Finding,
    about,
    above,
    among,
    at_least,
    at_most,
    below,
    listed,
    lost,
    number,
    percent,
    points,
    problems_needed,
    together,
    verdict_of,
    worst,
)
from analysis.runs.schema import RunModel as Model
from analysis.stats.intervals import Interval, share
from analysis.stats.pairs import contrast, identical_texts, paired, paired_difference

COLLAPSE = 5.0
"""Points that a model must be behind AR to have collapsed."""
AT = 0.95
"""The threshold that the paper reports."""
Sweep = tuple[Run, Sequence[Run]]
"""One-token mode of a model, and its runs by threshold."""


# Claim 1


def _one_token_claimed(published: Published) -> str:
    mean = published.one_token_mean
    return (
        f"One-token mode of MARS (B = 4) reaches {mean('MARS', 4)} against {mean('AR SFT (5 epochs)')} of AR SFT in "
        f"the mean of six benchmarks; AR SFT for twice the epochs falls to {mean('AR SFT (10 epochs)')}."
    )


def _one_token(evidence: Evidence) -> Finding:
    """Each MARS model against the AR model it started from and, where measured, the compute-matched AR model."""
    runs = evidence.runs
    pairs: list[tuple[str, Run, Run]] = []
    for model in runs.models(lambda model: model.is_full_mars):
        for role, other in (("start", runs.start_of(model)), ("compute-matched", runs.compute_matched(model))):
            if other and (found := on_same_problems(runs.one_token(model), runs.one_token(other))):
                pairs.append((role, found[0], found[1]))
    if not pairs:
        return Finding(needs="one-token runs of a MARS model and of an AR model on the same problems")
    same = [_same_by_construction(runs, run, rival) for _, run, rival in pairs]
    confidence = together(same.count(False))
    compared, undecided = [], []
    for role, run, rival in pairs:
        difference = paired_difference(runs.rows(run), runs.rows(rival))
        interval = difference.score_interval(confidence)
        verdict = verdict_of(interval, holds=at_least(-MARGIN), fails=below(0))
        if verdict is ClaimVerdict.OPEN:
            undecided.append(problems_needed(run.n, interval, above=-MARGIN, below=0.0))
        compared.append(
            Comparison(
                compared={
                    "MARS": f"{runs.name(run.model)}, {percent(runs.accuracy(run))}",
                    "AR": f"{runs.name(rival.model)} ({role}), {percent(runs.accuracy(rival))}",
                },
                measured={
                    "difference (points)": points(interval),
                    "gained / lost": f"{difference.gained} / {difference.lost}",
                    "McNemar p": f"{difference.p_value:.2g}",
                },
                verdict=verdict,
            )
        )
    shown = next((place for place, row in enumerate(compared) if row.verdict is ClaimVerdict.FAILS), 0)
    _, run, rival = pairs[shown]
    alike = all(same)  # so that more training of AR has nothing to say
    matched = alike or any(role != "start" for role, _, _ in pairs)
    texts = f"every text is AR's ({percent(identical_texts(runs.rows(run), runs.rows(rival)))}); " if alike else ""
    return Finding(
        comparisons=compared,
        headline=f"{texts}{runs.name(run.model)}: {points(runs.points(run, rival, confidence))} points"
        f"{among(len(undecided), len(pairs), 'undecided') if undecided else ''}",
        runs=[run for _, *both in pairs for run in both],
        why=[*_needed(undecided), *_worse_families(runs, pairs)],
        needs="" if matched else "a compute-matched AR",
    )


def _same_by_construction(runs: GreedyRuns, run: Run, rival: Run) -> bool:
    """True of a gated adapter and its base, where every text is the same: chance cannot make them differ."""
    of_base = run.model.base == rival.model.fingerprint
    return of_base and identical_texts(runs.rows(run), runs.rows(rival)).value == 1


def _needed(undecided: Sequence[float]) -> list[str]:
    if not undecided:
        return []
    few, many = about(min(undecided)), about(max(undecided))
    wanted = few if few == many else f"{few} to {many}"
    return [f"If the differences stay as measured, {wanted} problems would decide the open comparisons."]


def _worse_families(runs: GreedyRuns, pairs: Sequence[tuple[str, Run, Run]]) -> list[str]:
    """The families in which models are surely behind the AR model they started from, and how many models are."""
    worse: dict[str, int] = {}
    for role, run, rival in pairs:
        for task in sorted(set(runs.rows(run)["task"])) if role == "start" else ():
            if _family(runs, run, rival, task).surely_below(0):
                worse[task] = worse.get(task, 0) + 1
    where = " and ".join(f"{task} ({models} model{'s' * (models > 1)})" for task, models in worse.items())
    return [f"MARS is surely behind its start in {where} and in no other family."] if worse else []


def _family(runs: GreedyRuns, run: Run, rival: Run, task: str) -> Interval:
    ours, theirs = (rows[rows["task"] == task] for rows in (runs.rows(run), runs.rows(rival)))
    return paired_difference(ours, theirs).score_interval()


# Claim 2


def _sft_loss_claimed(published: Published) -> str:
    mean, without = published.one_token_mean, "MARS without SFT loss"
    return (
        f"From B = 4 to 16 the mean falls from {mean(without, 4)} to {mean(without, 16)} without the SFT loss, and "
        f"from {mean('MARS', 4)} to {mean('MARS', 16)} with it."
    )


def _sft_loss(evidence: Evidence) -> Finding:
    """From the smallest to the largest block, with and without the SFT loss, of models that saw equally much."""
    runs = evidence.runs
    found = {model: own for model in runs.ablations() if (own := runs.one_token(model))}
    with_loss = {model.block_size: own for model, own in found.items() if model.is_full_mars}
    without = {model.block_size: own for model, own in found.items() if not model.is_full_mars}
    sizes = sorted(size for size in with_loss.keys() & without.keys() if size is not None)
    choices = [choice[size] for choice in (with_loss, without) for size in sizes]
    chosen = on_same_problems(*choices) if len(sizes) > 1 else None
    if chosen is None:
        needs = (
            "one-token runs, on the same problems, of MARS models of two block sizes, each with and without the loss"
        )
        return Finding(needs=needs)
    kept, degraded = chosen[: len(sizes)], chosen[len(sizes) :]
    fall, small_fall = (runs.points(side[0], side[-1]) for side in (degraded, kept))
    parts = [(1.0, degraded[0]), (-1.0, degraded[-1]), (-1.0, kept[0]), (1.0, kept[-1])]
    kept_back = contrast([(factor, runs.rows(run)) for factor, run in parts])

    def accuracies(side: Sequence[Run]) -> str:
        return ", ".join(f"{percent(runs.accuracy(run))} (B = {size})" for size, run in zip(sizes, side, strict=True))

    return Finding(
        comparisons=[
            Comparison(
                compared={"models": "without the SFT loss", "accuracy": accuracies(degraded)},
                measured={"points lost": lost(fall)},
                verdict=verdict_of(fall, holds=above(0), fails=below(MARGIN)),
            ),
            Comparison(
                compared={"models": "with it", "accuracy": accuracies(kept)},
                measured={"points lost": lost(small_fall)},
            ),
            Comparison(
                compared={"models": "kept by the loss", "accuracy": ""},
                measured={"points lost": lost(kept_back)},
                verdict=verdict_of(kept_back, holds=above(0), fails=below(0)),
            ),
        ],
        headline=(
            f"B = {sizes[0]} to {sizes[-1]}: {lost(fall)} points lost without the loss, {lost(small_fall)} with it"
        ),
        runs=chosen,
    )


# Claim 3


def _frontier_claimed(published: Published) -> str:
    table = published.at_threshold()
    losses, speeds = table["loss"], table["tokens_per_forward"]
    return (
        f"A smooth frontier; τ = {AT:g} costs {losses.min():.1f} to {losses.max():.1f} points of the mean for "
        f"{speeds.min():.2f} to {speeds.max():.2f} tokens per forward, over models and block sizes."
    )


def _frontier(evidence: Evidence) -> Finding:
    """Per MARS model: the cost and gain of τ = 0.95, and whether each step down in τ adds tokens per forward."""
    runs, table = evidence.runs, evidence.published.at_threshold()
    most, least = table["loss"].max(), table["tokens_per_forward"].min()
    found = {model: sweep for model in runs.models(lambda m: m.is_full_mars) if (sweep := runs.sweep(model))}
    judged = {
        model: (base, swept)
        for model, (base, swept) in found.items()
        if len(swept) > 1 and any(run.threshold == AT for run in swept)
    }
    if not judged:
        return Finding(needs=f"runs of sliding_window at several τ, {AT:g} among them, and in one-token mode")
    confidence = together(2 * len(judged))
    compared, headline = [], ""
    parts: dict[Model, tuple[ClaimVerdict, ...]] = {}
    for model, (base, swept) in judged.items():
        at = _at(swept)
        loss, speed = runs.points(at, base, confidence).scaled(-1), runs.forward(at, confidence)
        steps = [runs.forward_gain(after, before) for before, after in pairwise([base, *swept])]
        rises = all(step.value > 1 for step in steps)
        falls = any(step.surely_below(1) for step in steps)
        parts[model] = (
            verdict_of(loss, holds=at_most(most), fails=above(most)),
            verdict_of(speed, holds=at_least(least), fails=below(least)),
            ClaimVerdict.FAILS if falls else ClaimVerdict.HOLDS if rises else ClaimVerdict.OPEN,
        )
        headline = (
            headline or f"{runs.name(model)}, τ = {AT:g}: {lost(loss)} points lost, {number(speed)} tokens/forward"
        )
        compared.append(
            Comparison(
                compared={"model": runs.name(model)},
                measured={
                    f"points lost at τ = {AT:g}": lost(loss),
                    "tokens/forward": number(speed),
                    "steps down in τ": f"{len(swept)}, {'each adds' if rises else 'not every one adds'} tokens",
                },
                verdict=worst(parts[model]),
            )
        )
    losing = [model for model, (loss_verdict, *_) in parts.items() if loss_verdict is ClaimVerdict.FAILS]
    scores, proposing = _agreement(runs, list(judged))
    return Finding(
        comparisons=compared,
        headline=headline,
        runs=[*(run for base, swept in judged.values() for run in (base, *swept)), *proposing],
        why=[*_reasons(runs, parts, most, least), *_cost(runs, [judged[model] for model in losing], scores)],
    )


def _reasons(runs: GreedyRuns, parts: Mapping[Model, Sequence[ClaimVerdict]], most: float, least: float) -> list[str]:
    """The parts of the rule that decide against the claim, or leave it open, with the models that fall short."""
    verdict = worst(each for found in parts.values() for each in found)
    if verdict is ClaimVerdict.HOLDS:
        return []
    falls_short = (
        (f"At τ = {AT:g}", "lose", f"more than the paper's {most:.1f} points"),
        (f"At τ = {AT:g}", "write", f"fewer tokens per forward than the paper's least, {least:.2f}"),
        ("With a lower τ", "write", "fewer tokens per forward at some step"),
    )
    told = []
    for place, (where, verb, what) in enumerate(falls_short):
        names = [runs.name(model) for model, found in parts.items() if found[place] is verdict]
        does = f"surely {verb}{'s' * (len(names) == 1)}" if verdict is ClaimVerdict.FAILS else f"may {verb}"
        if names:
            told.append(f"{where} {listed(names)} {does} {what}.")
    return [" ".join(told)]


def _at(swept: Sequence[Run]) -> Run:
    return next(run for run in swept if run.threshold == AT)


def _cost(runs: GreedyRuns, losing: Sequence[Sweep], scores: Sequence[str]) -> list[str]:
    """How many right answers stay right where the threshold changes the text, in models that lose too many."""
    right, still = 0, 0
    for base, swept in losing:
        before, after = paired(runs.rows(base), runs.rows(_at(swept)))
        were_right = (before["text"] != after["text"]) & before["correct"]
        right += int(were_right.sum())
        still += int((were_right & after["correct"]).sum())
    if not right:
        return []
    changed = f"There it changed the text of {right:,} problems that one-token mode solves"
    return [" ".join([f"{changed}, and {still:,} of them stayed right.", *scores])]


def _agreement(runs: GreedyRuns, models: Sequence[Model]) -> tuple[list[str], list[Run]]:
    """How far the confidence of proposals that reach τ exceeds their accuracy, where most; and the runs behind it."""
    worst_case, excess, kept = "", 0.0, []
    for model in models:
        if not (found := runs.proposals(model)):
            continue
        kept.append(found[0])
        reaching = found[1][found[1]["score"] >= AT]
        if reaching.empty:
            continue
        confidence = float(reaching["score"].astype(float).mean())
        agrees = share(int(reaching["agrees"].sum()), len(reaching))
        if agrees.surely_below(confidence) and confidence - agrees.value > excess:
            excess = confidence - agrees.value
            worst_case = (
                f"{runs.name(model)} is the most overconfident: proposals that reach τ average "
                f"{100 * confidence:.1f} % confidence but match one-token mode in {percent(agrees)}."
            )
    return ([worst_case] if worst_case else []), kept


# Claim 8


def _collapse_claimed(published: Published) -> str:
    mean = published.one_token_mean
    return (
        f"Block diffusion (B = 4) from the same start falls to {mean('Block Diffusion', 4)} from "
        f"{mean('AR SFT (5 epochs)')} of AR SFT in the mean; MARS at B = 4 has {mean('MARS', 4)}."
    )


def _collapse(evidence: Evidence) -> Finding:
    """Block diffusion at its most accurate setting against the AR model and against MARS of its block size."""
    runs, compared, used, headline = evidence.runs, [], [], ""
    for model in runs.models(lambda model: model.stage == DIFFUSION):
        start = runs.start_of(model)
        tried = sorted(runs.of(model), key=lambda run: (-run.n, -runs.accuracy(run).value))
        found = start and on_same_problems(tried, runs.one_token(start))
        if not found:
            continue
        rivals = [found[1], *_same_block(runs, model, found[0])]
        for rival in rivals:
            interval = runs.points(found[0], rival)
            judged = rival is found[1]
            if judged:
                headline = headline or f"{points(interval)} points against {runs.name(rival.model)}"
            compared.append(
                Comparison(
                    compared={
                        "block diffusion": f"{runs.name(model)}, {percent(runs.accuracy(found[0]))}",
                        "against": f"{runs.name(rival.model)}, {percent(runs.accuracy(rival))}",
                    },
                    measured={"difference (points)": points(interval)},
                    verdict=verdict_of(interval, holds=below(-COLLAPSE), fails=above(-COLLAPSE)) if judged else None,
                )
            )
        used += [found[0], *rivals]
    if not compared:
        return Finding(needs="runs of a block diffusion model and of the AR model it started from on the same problems")
    return Finding(comparisons=compared, headline=headline, runs=used)


def _same_block(runs: GreedyRuns, model: Model, run: Run) -> list[Run]:
    """MARS of the same block and training size, in one-token mode on the problems of `run`."""
    alike = runs.models(
        lambda other: other.is_full_mars and other.block_size == model.block_size and other.examples == model.examples
    )
    both = [on_same_problems([run], runs.one_token(other)) for other in alike if other.stage == MARS]
    return [found[1] for found in both if found]


CLAIMS = (
    Claim(
        number=1,
        title="One-token mode is as accurate as AR, even as AR trained for twice as long",
        claimed=_one_token_claimed,
        rule=f"""Each MARS model with the SFT loss is compared with the AR model it started from and with an AR model
            that saw twice as many conversations. It holds if every interval lies above −{MARGIN:g} point and fails if
            one lies below 0. All intervals are right together in 95 % of cases; those of a gated adapter, whose texts
            are AR's by construction, do not count among them, and where all are such, no second AR model is asked
            for.""",
        find=_one_token,
        recipes=("ablations", "shipped"),
        on_real=("real-one-token", "real-merged", "real-ablations"),
    ),
    Claim(
        number=2,
        title="The SFT loss keeps larger blocks from losing accuracy",
        claimed=_sft_loss_claimed,
        rule=f"""It holds if accuracy surely falls from the smallest to the largest block without the SFT loss, and
            surely by more than with it. It fails if it surely falls by less than with it, or surely by less than
            {MARGIN:g} point.""",
        find=_sft_loss,
        recipes=("ablations",),
        on_real=("real-ablations",),
    ),
    Claim(
        number=3,
        title="Lowering τ trades little accuracy for speed, smoothly",
        claimed=_frontier_claimed,
        rule=f"""Each MARS model with the SFT loss is judged. It holds if every step down in τ adds tokens per forward
            and τ = {AT:g} surely loses at most as many points, and gains at least as many tokens per forward, as the
            paper's extremes. It fails if a step surely takes tokens away, or τ = {AT:g} surely loses more or gains
            less. The intervals are right together in 95 % of cases.""",
        find=_frontier,
        recipes=("ablations", "calibration", "scores"),
        on_real=("real-thresholds", "real-merged", "real-merged-accuracy"),
    ),
    Claim(
        number=8,
        title="Block diffusion from the same start falls far behind AR",
        claimed=_collapse_claimed,
        rule=f"""It holds if block diffusion, at its most accurate setting, is surely more than {COLLAPSE:g} points
            behind the AR model, and fails if it is surely less.""",
        find=_collapse,
        recipes=("ablations",),
        first="a block diffusion model trained from the base",
    ),
)
