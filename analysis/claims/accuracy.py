"""Claims about accuracy: 1 one-token mode, 2 the SFT loss, 3 the threshold, 8 block diffusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

from analysis.claims.evidence import DIFFUSION, Evidence, GreedyRuns, Published, Run, on_each_kind, on_same_problems
from analysis.claims.judging import (
    MARGIN,
    Claim,
    ClaimVerdict,
    Finding,
    about,
    among,
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
from analysis.stats.intervals import share
from analysis.stats.pairs import contrast, identical_texts, paired, paired_difference

COLLAPSE = 5.0
"""Points that a model must be behind AR to have collapsed."""
AT = 0.95
"""The threshold that the paper reports."""


# Claim 1


def _one_token_claimed(published: Published) -> str:
    mean = published.one_token_mean
    return (
        f"One-token mode of MARS (B = 4) reaches {mean('MARS', 4)} against {mean('AR SFT (5 epochs)')} of AR SFT in "
        f"the mean of six benchmarks; AR SFT for twice the epochs falls to {mean('AR SFT (10 epochs)')}."
    )


def _one_token(evidence: Evidence) -> Finding:
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
    same = [_same_by_construction(runs, run, rival) for _, run, rival in pairs]
    confidence = together(same.count(False))
    undecided = []
    for (role, run, rival), by_construction in zip(pairs, same, strict=True):
        difference = paired_difference(runs.rows(run), runs.rows(rival))
        interval = difference.score_interval(confidence)
        holds = by_construction or interval.low >= -MARGIN
        verdict = verdict_of(holds=holds, fails=interval.surely_below(0))
        if verdict is ClaimVerdict.OPEN:
            undecided.append(problems_needed(run.n, interval, above=-MARGIN, below=0.0))
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
        finding.headline += among(len(undecided), len(pairs), "undecided")
    if not alike and all(role == "start" for role, _, _ in pairs):
        finding.missing = "a compute-matched AR"
    finding.why += [*_needed(undecided), *_worse_families(runs, pairs)]
    return finding


def _with_accuracy(runs: GreedyRuns, run: Run, role: str = "") -> str:
    return f"{runs.name(run.model)}{role}, {percent(runs.accuracy(run))}"


def _same_by_construction(runs: GreedyRuns, run: Run, rival: Run) -> bool:
    """True of a gated adapter and its base, where every text is the same: chance cannot make them differ."""
    of_base = run.model.base == rival.model.fingerprint
    return of_base and identical_texts(runs.rows(run), runs.rows(rival)).value == 1


def _needed(undecided: Sequence[float]) -> list[str]:
    if not undecided:
        return []
    wanted = " to ".join(dict.fromkeys(map(about, (min(undecided), max(undecided)))))
    return [f"If the differences stay as measured, {wanted} problems would decide the open comparisons."]


def _worse_families(runs: GreedyRuns, pairs: Sequence[tuple[str, Run, Run]]) -> list[str]:
    """The families in which models are surely behind the AR model they started from, and how many models are."""
    worse: Counter[str] = Counter()
    for run, rival in [(run, rival) for role, run, rival in pairs if role == "start"]:
        ours, theirs = (runs.rows(each).groupby("task") for each in (run, rival))
        for task, rows in ours:
            difference = paired_difference(rows, theirs.get_group(task))
            worse[str(task)] += difference.score_interval().surely_below(0)
    where = " and ".join(f"{task} ({models} model{'s' * (models > 1)})" for task, models in worse.items() if models)
    return [f"MARS is surely behind its start in {where} and in no other family."] if where else []


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
    if finding.verdict is ClaimVerdict.OPEN:
        limits = ((falls, fall, MARGIN), (keeps, kept_back, 0.0))
        needed = [
            problems_needed(chosen[0].n, interval, above=0.0, below=below)
            for verdict, interval, below in limits
            if verdict is ClaimVerdict.OPEN
        ]
        finding.why += _needed([problems for problems in needed if problems < inf])
    finding.headline = (
        f"B = {sizes[0]} to {sizes[-1]}: {lost(fall)} points lost without the loss, {lost(small_fall)} with it"
    )
    return finding


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
    finding = Finding(without=f"runs of sliding_window at several τ, {AT:g} among them, and in one-token mode")
    swept = {
        model: (sweep[0], at, sweep[1])
        for model in runs.full_mars
        if (sweep := runs.sweep(model)) and len(sweep[1]) > 1
        if (at := next((run for run in sweep[1] if run.threshold == AT), None))
    }
    confidence = together(2 * len(swept))
    parts: dict[Model, tuple[ClaimVerdict, ...]] = {}
    for model, (base, at, lower) in swept.items():
        loss, speed = runs.points(at, base, confidence).scaled(-1), runs.forward(at, confidence)
        steps = [runs.forward_gain(after, before) for before, after in pairwise([base, *lower])]
        rises = all(step.value > 1 for step in steps)
        parts[model] = (
            verdict_of(holds=loss.high <= most, fails=loss.surely_above(most)),
            verdict_of(holds=speed.low >= least, fails=speed.surely_below(least)),
            verdict_of(holds=rises, fails=any(step.surely_below(1) for step in steps)),
        )
        finding.add(
            {"model": runs.name(model)},
            {
                f"points lost at τ = {AT:g}": lost(loss),
                "tokens/forward": number(speed),
                "steps down in τ": f"{len(lower)}, {'each adds' if rises else 'not every one adds'} tokens",
            },
            worst(parts[model]),
            (base, *lower),
        )
        first = f"{runs.name(model)}, τ = {AT:g}: {lost(loss)} points lost, {number(speed)} tokens/forward"
        finding.headline = finding.headline or first
    losing = [swept[model][:2] for model, (loses, *_) in parts.items() if loses is ClaimVerdict.FAILS]
    scores, proposing = _agreement(runs, list(swept))
    finding.runs += proposing
    finding.why += [*_reasons(runs, parts, most, least), *_cost(runs, losing, scores)]
    return finding


def _reasons(runs: GreedyRuns, parts: Mapping[Model, Sequence[ClaimVerdict]], most: float, least: float) -> list[str]:
    """The parts of the rule that decide against the claim, or leave it open, with the models that fall short."""
    verdict = worst(each for found in parts.values() for each in found)
    if verdict not in (ClaimVerdict.FAILS, ClaimVerdict.OPEN):
        return []
    how = "surely" if verdict is ClaimVerdict.FAILS else "perhaps"
    falls_short = (
        f"τ = {AT:g} {how} costs more than the paper's {most:.1f} points",
        f"τ = {AT:g} {how} gives fewer tokens per forward than the paper's least, {least:.2f},",
        f"A step down in τ {how} takes tokens per forward away",
    )
    names = [[runs.name(model) for model, found in parts.items() if found[place] is verdict] for place in range(3)]
    return [" ".join(f"{what} in {listed(who)}." for what, who in zip(falls_short, names, strict=True) if who)]


def _cost(runs: GreedyRuns, losing: Sequence[tuple[Run, Run]], scores: Sequence[str]) -> list[str]:
    """How many right answers stay right where the threshold changes the text, in models that lose too many."""
    right, still = 0, 0
    for base, at in losing:
        before, after = paired(runs.rows(base), runs.rows(at))
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


CLAIMS = (
    Claim(
        number=1,
        title="One-token mode is as accurate as AR, even as AR trained for twice as long",
        claimed=_one_token_claimed,
        rule=f"""Each MARS model with the SFT loss is compared with the AR model it started from and with an AR model
            that saw twice as many conversations, once on each benchmark that both ran, on most of its problems. It
            holds if every interval lies above −{MARGIN:g} point and fails if one lies below 0. A gated adapter, whose
            texts are AR's by construction, holds where they are all the same; it needs no second AR model and makes no
            interval wider. In bfloat16 a model writes other texts on another CPU, so both runs are of one.""",
        find=_one_token,
        recipes=("ablations", "shipped", "scores-fine", "one-token"),
        on_real=("real-one-token", "real-merged", "real-verifiable", "real-ablations"),
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
            less.""",
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
        first="""a block diffusion model trained from the base: the tiny one saw 48,000 conversations, for which the
            adapters' 2.5 s a conversation (LoRA, one CPU core) come to 33 hours, and one trained on the few hundred of
            the adapters of claim 2 would show too little training, not the objective""",
    ),
)
