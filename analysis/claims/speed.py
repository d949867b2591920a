"""Rules on speed: 4 and 10 the block cache, 6 Jacobi, 7 speculative and 9 exact decoding, 12 the AR baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from analysis.claims.evidence import Evidence, GreedyRuns, Run, by_turn, on_same_problems
from analysis.claims.judging import (
    MARGIN,
    ClaimVerdict,
    Finding,
    claim,
    faster,
    number,
    percent,
    points,
    rate,
    times,
    together,
    verdict_of,
    worst,
)
from analysis.claims.published import PAPER
from analysis.runs.baseline import AR, of_one_size
from analysis.runs.schema import RunModel as Model
from analysis.runs.schema import cpu_units, short_commit
from analysis.stats.intervals import Interval
from analysis.stats.pairs import identical_texts, paired, speed_up_of_means
from analysis.stats.turns import time_gain
from mars import decoders
from mars.decoders import BASELINE, EXACT

MANY_ROWS = (4, 8, 16)
"""Batch sizes at which rows that wait for each other cost time."""
WORTHWHILE = 1.05
"""A speed-up below this one matters to no user."""
LITTLE = 1.25
"""Tokens per forward up to which a training-free decoder gains little."""
PAPER_BATCH = 4
"""The batch size of the paper's largest speed-up."""
PARAMETERS_7B = 7_615_616_512
BYTES_PER_WEIGHT = 2
_MASKS_DRAFT = {"tree": "masks", "lookup": "masks and copies"}
H200_BYTES_PER_SECOND = 4.8e12
"""The nominal memory bandwidth of the paper's GPU."""
_CACHED = PAPER.best_block_cache
_STEP = PAPER_BATCH / PAPER.ar_throughput(PAPER_BATCH)
_READING = PARAMETERS_7B * BYTES_PER_WEIGHT / H200_BYTES_PER_SECOND
"""Seconds of a step of the published AR baseline, and to read the weights once."""


@claim(
    4,
    "The block cache makes MARS faster than AR",
    claimed=f"""A block cache turns tokens per forward into wall-clock: up to {_CACHED["speedup_over_ar"]:.2f}× AR, at
    batch {_CACHED["batch_size"]:.0f} with cache blocks of {_CACHED["cache_block_size"]:.0f}; without a cache
    {" and ".join(f"{gain:.2f}× at batch {size}" for size, gain in PAPER.without_cache.items() if gain < 0.5)}.""",
    rule=f"""Judged at the batch size of the paper's largest speed-up, in the same turns as AR on the same weights
    and on every other model of this size; of several groups of runs, that on most problems, with intervals
    that allow for each group that was run in turns. It holds if the best cache block size is surely more than
    {100 * (WORTHWHILE - 1):.0f} % faster than each AR run, and fails if every size surely gains less than that
    on each: so small a gain matters to no user.""",
)
def cache(evidence: Evidence) -> Finding:
    """The best cache block size of each batch size against AR in the same turns.

    Judged at the paper's batch size, where several groups have it, on most problems.
    """
    runs, batch = evidence.runs, int(_CACHED["batch_size"])
    finding = Finding(without=f"timed runs of block_cached and autoregressive in one group at batch {batch}")
    groups = [(cached, plain) for turn in by_turn(runs.all) for cached, plain in [_cached_and_plain(turn)] if plain]
    looks = sum(cached[0].batch_size == batch and runs.in_turns(cached[0], plain[0]) for cached, plain in groups)
    for cached, plain in sorted(groups, key=lambda group: -group[0][0].n):
        judged = cached[0].batch_size == batch and not finding.judged
        confidence = together(len(cached) * len(plain) * (max(looks, 1) if judged else 1))
        gains = {run.id: [runs.time_gain(run, other, confidence) for other in plain] for run in cached}
        best = max(cached, key=lambda run: gains[run.id][0].value)
        verdict = None
        others = [
            f"{times(gain)} ({runs.name(run.model)})" for run, gain in zip(plain[1:], gains[best.id][1:], strict=True)
        ]
        if judged:
            finding.headline = f"{times(gains[best.id][0])} AR at batch {batch}"
            verdict = _cache_verdict(gains, best)
        size = str(best.settings.cache_block_size)
        finding.add(
            {"device, batch": _place(best), "CPU": best.units, "n": f"{best.n:,}", "best cache block": size},
            {
                "tokens/s": rate(runs.rate(best)),
                "× AR": times(gains[best.id][0]),
                "× AR on other weights": ", ".join(others),
            },
            verdict,
            [*plain, *cached],
        )
    return finding if finding.judged else Finding(without=finding.without)


def _cached_and_plain(turn: Iterable[Run]) -> tuple[list[Run], list[Run]]:
    """The runs with a block cache, the highest τ and the smallest block first, and the AR runs of their size."""
    several = list(turn)
    cached = [run for run in several if run.decoder == "block_cached" and run.threshold is not None]
    cached.sort(key=lambda run: (-(run.threshold or 0), run.settings.cache_block_size))
    return cached, _ar_of_its_size(several, cached[0]) if cached else []


def _cache_verdict(gains: Mapping[str, list[Interval]], best: Run) -> ClaimVerdict:
    """The best block must be worth while beside every AR run; it fails only if no block is, beside any of them."""
    return verdict_of(
        holds=all(gain.surely_above(WORTHWHILE) for gain in gains[best.id]),
        fails=all(gain.surely_below(WORTHWHILE) for each in gains.values() for gain in each),
    )


def _ar_of_its_size(turn: Iterable[Run], run: Run) -> list[Run]:
    """The autoregressive runs of the same turns on models of its size, on its own weights first."""
    alike = [
        other
        for other in turn
        if other.decoder == "autoregressive" and of_one_size(other.model.parameters, run.model.parameters)
    ]
    return sorted(alike, key=lambda other: (other.model.fingerprint != run.model.fingerprint, other.id))


def _place(run: Run) -> str:
    return f"{run.device}, {run.batch_size}"


@claim(
    6,
    "Jacobi decoding gains little",
    claimed="""Jacobi decoding of the AR model reaches {1:.2f} tokens per forward (mean {4:.1f} against {3:.1f}), MARS
    at τ = 0.95 {2:.2f}.""".format(*PAPER.jacobi["tokens_per_forward"], *PAPER.jacobi["mean"]),
    rule=f"""It holds if the best of the numbers of draft tokens that were run surely gives at most {LITTLE:g} tokens
    per forward, and fails if it surely gives more.""",
)
def jacobi(evidence: Evidence) -> Finding:
    """Every number of draft tokens on each AR model; the best is judged."""
    runs = evidence.runs
    finding = Finding(without="runs of jacobi and of autoregressive on one AR model and the same problems")
    for model in runs.models(lambda model: model.stage in (AR, None)):
        found: dict[int, list[Run]] = {}
        for run in runs.of(model, "jacobi"):
            if pair := on_same_problems([run], runs.one_token(model)):
                found.setdefault(run.settings.draft_tokens, pair)
        gains = {k: runs.forward(run, together(len(found))) for k, (run, _) in found.items()}
        best = max(gains, key=lambda k: gains[k].value, default=None)
        for k, (run, plain) in sorted(found.items()):
            same = identical_texts(runs.rows(run), runs.rows(plain))
            judged = verdict_of(holds=gains[k].high <= LITTLE, fails=gains[k].surely_above(LITTLE))
            finding.add(
                {"model": runs.name(model), "draft tokens": str(k)},
                {"tokens/forward": number(gains[k]), "texts identical to AR": percent(same)},
                judged if k == best else None,
                (run, plain),
            )
        if best is not None and not finding.headline:
            finding.headline = f"{number(gains[best])} tokens/forward with {best} draft tokens"
    return finding


def _pair_of(run: Run) -> str:
    """Draft → target by stage, as in the paper."""
    stages = ["AR" if model is not None and model.stage == AR else "MARS" for model in (run.draft, run.model)]
    return " → ".join(stages)


def _as_in_the_paper(run: Run) -> bool:
    """A MARS target continues with its own masks; an AR target has none."""
    return run.decoder == "speculative" and run.settings.continuation == (run.model.stage != AR)


@claim(
    7,
    "MARS speeds up speculative decoding",
    claimed=f"""Against AR as draft and target: {PAPER.speculative("AR", "MARS"):.2f}× with a MARS target,
    {PAPER.speculative("MARS", "MARS"):.2f}× with both.""",
    rule="""Of each pair the fastest setting that was run in the same turns is taken. It holds if a MARS target, and
    MARS as draft and target, both surely beat AR → AR, and fails if one is surely slower. Where there is no smaller
    model to draft, copies of the text so far (prompt lookup) take its place, and masks as drafts, and masks with
    copies, must both beat them in the same turns.""",
)
def speculative(evidence: Evidence) -> Finding:
    """The fastest setting of each pair against that of AR → AR in the same turns."""
    runs, wanted = evidence.runs, ("AR → MARS", "MARS → MARS")
    finding = Finding()
    for turn in by_turn(filter(_as_in_the_paper, runs.all)):
        pairs: dict[str, list[Run]] = {}
        for run in turn:
            pairs.setdefault(_pair_of(run), []).append(run)
        if "AR → AR" not in pairs or not any(pair in pairs for pair in wanted):
            continue
        if not all(pair in pairs for pair in wanted):
            finding.missing = "both pairs with MARS"
        fastest = {pair: runs.fastest(pairs[pair]) for pair in ("AR → AR", *wanted) if pair in pairs}
        base = fastest["AR → AR"]
        for pair, run in fastest.items():
            gain = runs.time_gain(run, base, together(2))
            finding.add(
                {"draft → target": f"{pair} ({_place(run)})", "setting": _draft_setting(run)},
                {
                    "tokens/s": rate(runs.rate(run)),
                    "× AR → AR": times(gain),
                    "accuracy (points)": points(runs.points(run, base)),
                },
                faster(gain) if pair in wanted else None,
                [run],
            )
    if not finding.comparisons:
        return _against_copies(evidence)
    told = [(each.compared["draft → target"].split(" (")[0], each.measured["× AR → AR"]) for each in finding.judged]
    finding.headline = "; ".join(f"{pair} {gain}" for pair, gain in told)
    return finding


def _against_copies(evidence: Evidence) -> Finding:
    """Masks, and masks with copies, as drafts against copies of the text alone: no draft has a model of its own."""
    runs, headline = evidence.runs, []
    finding = Finding(
        without="timed runs of speculative with an AR draft on an AR target and with MARS in one group, or of masks "
        "(self_speculative, tree and lookup) and prompt_lookup"
    )
    for turn in by_turn([*runs.all, *runs.unjudged]):
        copies = [run for run in turn if run.decoder == "prompt_lookup"]
        masks = [run for run in turn if run.decoder == "self_speculative" and run.settings.layout in _MASKS_DRAFT]
        if not copies or len({run.settings.layout for run in masks}) < len(_MASKS_DRAFT):
            continue
        base = runs.fastest(copies)
        for run in masks:
            gain, words = runs.time_gain(run, base, together(len(masks))), _MASKS_DRAFT[run.settings.layout]
            finding.add(
                {"draft": words, "batch": str(run.batch_size), "CPU": run.units},
                {"tokens/s": rate(runs.rate(run)), "× copies": times(gain)},
                faster(gain),
                (run, base),
            )
            headline.append(f"{words} {times(gain)}")
    if finding.comparisons:
        finding.headline = f"{'; '.join(headline[:2])} copies alone"
    return finding


def _draft_setting(run: Run) -> str:
    threshold = "" if run.threshold is None else f", τ = {run.threshold:g}"
    return f"K = {run.settings.draft_tokens}{threshold}"


@claim(
    10,
    "Rows that do not wait at block ends beat the block cache",
    claimed="A cursor per row, which the paper leaves to future work, is faster than the best block cache.",
    rule="""Judged at batch sizes 4, 8 and 16, at the same τ and in the same turns. It holds if sliding_window
    surely beats block_cached at every cache block size, and fails if it is surely slower than the best.""",
    ours=True,
)
def waiting(evidence: Evidence) -> Finding:
    """sliding_window against every cache block size of block_cached at the same τ, in the same turns."""
    runs, judged = evidence.runs, []
    finding = Finding(
        without="timed runs of sliding_window and block_cached at the same τ and a batch size of 4, 8 or 16"
    )
    for turn in by_turn(runs.all):
        for run in turn:
            rivals = [other for other in turn if other.decoder == "block_cached" and run.same_window(other)]
            if run.decoder != "sliding_window" or run.threshold is None or not rivals:
                continue
            best = runs.fastest(rivals)
            confidence = together(len(rivals) * len(MANY_ROWS))
            gains = {rival: runs.time_gain(run, rival, confidence) for rival in rivals}
            counts = run.batch_size in MANY_ROWS
            all_beaten = all(gain.surely_above(1) for gain in gains.values())
            if counts:
                judged.append(f"{times(gains[best])} at batch {run.batch_size}")
            size = str(best.settings.cache_block_size)
            finding.add(
                {"device, batch": _place(run), "CPU": run.units, "τ": f"{run.threshold:g}", "best cache block": size},
                {
                    "sliding_window tokens/s": rate(runs.rate(run)),
                    "block_cached tokens/s": rate(runs.rate(best)),
                    "speed-up": times(gains[best]),
                },
                verdict_of(holds=all_beaten, fails=gains[best].surely_below(1)) if counts else None,
                [run, *rivals],
            )
    finding.headline = "; ".join(judged)
    return finding if judged else Finding(without=finding.without)


@claim(
    12,
    "Our AR baseline is faster than `generate` of transformers",
    claimed=f"""The published AR baseline takes {1000 * _STEP:.0f} ms per step at batch {PAPER_BATCH} where reading
    the weights takes {1000 * _READING:.1f} ms: {_READING / _STEP:.0%} of the memory bandwidth. Ours is faster than
    `generate` of
    transformers.""",
    rule="""It holds if our AR is surely faster than generate, on the same weights and in turns with it, at every
    batch size measured, and fails if it is surely slower at one. The intervals are over rounds of the
    benchmark.""",
    ours=True,
)
def baseline(evidence: Evidence) -> Finding:
    """Our AR against generate by batch size, with the fastest decoder with τ over both. From benchmark files."""
    headline = []
    finding = Finding(without="the output of python -m analysis bench --json, with generate, as a file beside the runs")
    for bench in evidence.benches.values():
        results = {(result["contestant"], result["batch_size"]): result for result in bench["results"]}
        sizes = sorted(size for name, size in results if name == "generate" and ("autoregressive", size) in results)
        on_cpu = bench["device"] == "cpu"
        gains = []
        for size in sizes:
            ours, theirs = results["autoregressive", size], results["generate", size]
            gain = _interval(ours["speedup_over_generate"])
            gains.append(f"{times(gain)} at batch {size}" + ("" if on_cpu else f" ({bench['hardware']})"))
            finding.add(
                {"device, batch": f"{bench['device']}, {size}", "CPU": cpu_units(str(bench["hardware"]))},
                {
                    "our AR × generate": times(gain),
                    "generate tokens/s": rate(_interval(theirs["tokens_per_second"])),
                    "our AR tokens/s": rate(_interval(ours["tokens_per_second"])),
                    **_fastest_with_threshold(results, size),
                },
                faster(gain),
            )
        if sizes:
            finding.commands.append(str(bench["command"]))
            finding.n.append(int(bench["n"]))
            commit = f", commit {short_commit(bench['commit'])}" if bench.get("commit") else ""
            finding.where.append(f"{bench['hardware']}, {bench['dtype']}, {bench['repeats']} rounds{commit}")
        headline += [*gains[:1], *(gains[-1:] if on_cpu else ())]
    finding.headline = "; ".join(dict.fromkeys(headline))
    return finding


def _fastest_with_threshold(results: Mapping[tuple[str, int], Mapping[str, Any]], size: int) -> dict[str, str]:
    found = {name: result for (name, batch), result in results.items() if batch == size and "@" in name}
    if not found:
        return {"fastest with τ": "", "× our AR": "", "× generate": ""}
    name = max(found, key=lambda name: found[name]["tokens_per_second"]["median"])
    return {
        "fastest with τ": f"`{name}`",
        "× our AR": times(_interval(found[name]["speedup_over_autoregressive"])),
        "× generate": times(_interval(found[name]["speedup_over_generate"])),
    }


def _interval(estimate: Mapping[str, float]) -> Interval:
    return Interval(estimate["median"], estimate["low"], estimate["high"])


@claim(
    9,
    f"Exact decoding keeps the text, in fewer passes than any τ that loses at most {MARGIN:g} point",
    claimed=f"""Mask proposals that the next pass verifies give the text of one-token mode, in fewer passes than any τ
    that loses at most {MARGIN:g} point.""",
    rule=f"""It holds if every text equals that of one-token mode (but for bfloat16 on a GPU, where near-ties may
    flip) and the best layout surely takes fewer passes than the fastest τ that loses at most {MARGIN:g}
    point to one-token mode as measured on the most problems. It fails if a text differs or it surely takes more
    passes.""",
    ours=True,
)
def exact(evidence: Evidence) -> Finding:
    """Texts and passes of each MARS model, and of benchmarks."""
    runs = evidence.runs
    finding = Finding(without=f"runs of {EXACT}, of one-token mode and of several τ on the same problems")
    for model in runs.full_mars:
        _compare_passes(finding, runs, model)
    if not finding.comparisons:
        finding.missing = f"judged runs of {EXACT}, of one-token mode and of several τ"
    _compare_benchmarks(finding, runs)
    exact = [row.measured for row in finding.comparisons if "texts" in row.measured]
    if not exact:
        return Finding(without=finding.without)
    finding.headline = f"texts identical: {exact[0]['texts']}; {exact[0]['tokens/forward']} tokens/forward"
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
    most = runs.sweep(model) or swept  # on more problems, which say better what a τ loses
    lost = {run.threshold: -runs.points(run, most[0]).value for run in most[1]}
    within = [run for run in thresholds if lost.get(run.threshold, MARGIN + 1) <= MARGIN]
    rival = max([base, *within], key=lambda run: runs.forward(run).value)
    checked = [(run.n, _identical(runs, run, plain)) for run, plain in pairs if _comparable_texts(run)]
    texts, same = (sum(column) for column in zip(*checked, strict=True)) if checked else (0, 0)
    often = ", ".join(f"{n:,} problems {count} times" for n, count in Counter(n for n, _ in checked).items())
    gain = runs.forward_gain(best, rival)
    finding.add(
        {"model": runs.name(model), "n": f"{base.n:,}, τ judged on {most[0].n:,}"},
        {
            "texts": f"{same:,} of {texts:,}" + (f" ({often})" if len(checked) > 1 else ""),
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
    """Exact decoding on answers that nobody judged: texts of one-token mode, or AR's; passes and speed-up over AR's."""
    for turn in sorted(by_turn(runs.unjudged), key=lambda turn: turn[0].batch_size > 1):
        plain = next((run for run in turn if run.decoder == BASELINE), None)
        for run in turn:
            if plain is None or run.decoder == BASELINE or not decoders.TABLE[run.decoder].exact:
                continue
            own = next((other for other in turn if other.one_token and other.model == run.model), plain)
            same = _identical(runs, run, own)
            layout = run.settings.layout if run.decoder == EXACT else run.decoder
            finding.add(
                {"model": runs.name(run.model), "benchmark": f"{run.tasks[0]}, {run.batch_size}", "layout": layout},
                {
                    "texts": f"{same:,} of {run.n:,}",
                    "tokens/forward": number(runs.forward(run)),
                    **_speed_on_questions(run, *paired(runs.rows(run), runs.rows(plain))),
                    "CPU": run.units,
                },
                _same_texts(same, run.n) if _comparable_texts(run) else None,
                dict.fromkeys((run, own, plain)),
            )


def _speed_on_questions(run: Run, ours: pd.DataFrame, theirs: pd.DataFrame) -> dict[str, str]:
    """As Spec-Bench has it for one row of its own; of several, a row's seconds depend on how many write beside it."""
    if run.batch_size == 1 and "spec_bench" in run.tasks:
        return {"× AR, mean of questions": times(speed_up_of_means(ours, theirs))}
    return {"× AR, all tokens by all seconds": times(time_gain(ours, theirs))}


def _same_texts(same: int, texts: int) -> ClaimVerdict:
    return verdict_of(holds=texts > 0, fails=same < texts)


def _threshold_words(run: Run) -> str:
    """One-token mode or τ, and the block size where it differs from the training's."""
    size = run.settings.block_size
    other = "" if run.model.block_size in (None, size) else f", B = {size}"
    return "one-token mode" if run.one_token else f"τ = {run.threshold:g}{other}"
