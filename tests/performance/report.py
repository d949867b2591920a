"""What a load test prints and keeps: the outcome of each lane and load, the comparisons and the verdict."""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from analysis.runs.loads import Comparison, Faster, InTime, Outcome
from analysis.stats.intervals import Interval
from analysis.stats.pairs import PairedDifference
from mars.checkpoint import Checkpoint
from mars.provenance import provenance
from mars.serve.budget import Allowed
from tests.performance.asking import Asked
from tests.performance.lanes import FIXED_LANES
from tests.performance.questions import Judge
from tests.performance.traces import BURSTS, Answers
from tests.performance.verdict import LITTLE, best_of, compared, faster, points_gained, sentences

DRAIN = 1.5  # times the longest answer of AR alone: what the end of a trace takes, about
FULL = 4  # times the same: how long saturation is measured at least, after as long as that answer takes

Found = dict[str, list[Answers]]
"""The answers to a load, by lane and turn."""


def limits_of(alone: Sequence[Asked], options: argparse.Namespace) -> tuple[InTime, float, float]:
    """When an answer is in time, AR's usual seconds per token, and those of its longest answer, by answers `alone`."""
    usual = statistics.median(one.per_token for one in alone if one.per_token is not None)
    return InTime(ttft=options.ttft, tpot=options.tpot or 2 * usual), usual, max(one.seconds for one in alone)


def outcomes(judge: Judge, load: str, seconds: float, found: Found, limits: InTime) -> Iterator[Outcome]:
    """The outcome of each lane under a load of so many seconds in all; a line is printed for each."""
    flat = {lane: [one for turn in turns for one in turn] for lane, turns in found.items()}
    for lane, answers in flat.items():
        base = () if lane == "ar" else flat.get("ar", ())
        yield (one := judge.outcome(lane, load, seconds, answers, limits, base))
        _say(one)


def verdict(judge: Judge, loads: Mapping[str, Found], limits: InTime, options: argparse.Namespace) -> list[Comparison]:
    """The comparisons of lanes; the verdict is printed."""
    found = list(_comparisons(loads, limits, options.places))
    for sentence in sentences(found, _gain(loads), _accuracy(judge, loads), options.accuracy_budget):
        write(sentence)
    return found


def facts(
    saturation: float,
    seconds: float,
    usual: float,
    limits: InTime,
    results: Sequence[Outcome],
    comparisons: Sequence[Comparison],
) -> dict[str, Any]:
    """The fields of a load test that were measured."""
    return {
        "saturation": saturation,
        "seconds": seconds,
        "tpot_alone": usual,
        "limits": asdict(limits),
        "results": [asdict(one) for one in results],
        "comparisons": [asdict(one) for one in comparisons],
    }


def origin(checkpoint: Checkpoint, within: Allowed) -> dict[str, Any]:
    """The fields of a load test that tell where it came from; called in the process that makes the passes."""
    import torch

    command = shlex.join(["python", "-m", "tests.performance.arrivals", *sys.argv[1:]])
    return provenance(command, str(checkpoint.engine.device)) | {
        "threads": torch.get_num_threads(),
        "dtype": checkpoint.dtype,
        "thresholds": () if within.relaxed else within.thresholds,
        "bounds": within.thresholds if within.relaxed else (),
        "model": checkpoint.name,
    }


def _comparisons(loads: Mapping[str, Found], limits: InTime, run: int) -> Iterator[Comparison]:
    """Each policy with the best fixed setting, AR and the other policy; at each load, and over all of them."""
    whole: dict[tuple[str, str], tuple[list[Answers], list[Answers]]] = {}
    for name, found in loads.items():
        best = best_of(found, FIXED_LANES, limits)
        for lane, role in (("exact", "best"), ("exact", "ar"), ("knob", "exact"), ("knob", "ar")):
            other = best if role == "best" else role
            if lane not in found or other not in found:
                continue
            ours, theirs = whole.setdefault((lane, role), ([], []))
            ours += found[lane]
            theirs += found[other]
            one = compared((name, lane, other), found[lane], found[other], limits, run)
            if one is None:
                write(f"{name:7} goodput of {lane} / {other}: {other} has none")
            elif role != best:  # once is enough where AR is best
                yield one
    for (lane, role), (ours, theirs) in whole.items():
        if one := compared(("all", lane, role), ours, theirs, limits, run):
            yield one


def _flat(loads: Mapping[str, Found], lane: str, wanted: Callable[[float], bool]) -> list[tuple[int, Asked]]:
    """A lane's answers to all Poisson loads whose rate is wanted."""
    chosen = [found for name, found in loads.items() if name != BURSTS and wanted(float(name))]
    return [one for found in chosen for turn in found.get(lane, ()) for one in turn]


def _gain(loads: Mapping[str, Found]) -> Faster | None:
    little = [_flat(loads, lane, lambda rate: rate <= LITTLE) for lane in ("exact", "ar")]
    return faster(*little) if all(little) else None


def _accuracy(judge: Judge, loads: Mapping[str, Found]) -> tuple[Interval, int] | None:
    heavy = [_flat(loads, lane, lambda rate: rate >= 1) for lane in ("knob", "ar")]
    return points_gained(judge.pairs(*heavy)) if all(heavy) else None


def named(values: Mapping[str, float]) -> str:
    """Values by their names, for a line."""
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def write(line: str) -> None:
    """Print a line now."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _say(one: Outcome) -> None:
    def both(pair: tuple[float, float] | None) -> str:
        return "      –      " if pair is None else f"{pair[0] * 1000:5.0f} {pair[1] * 1000:6.0f} ms"

    against = ""
    if found := one.against_ar:
        points = PairedDifference(n=found.n, gained=found.gained, lost=found.lost).score_interval()
        against = f", {points.value:+.1f} points [{points.low:+.1f}, {points.high:+.1f}] n {found.n}"
    if gain := one.faster:
        against += f", {gain.value:.2f}x AR for a user [{gain.low:.2f}, {gain.high:.2f}] n {gain.n}"
    write(
        f"{one.load:7} {one.lane:10} {one.requests:4} at {one.offered:5.2f}/s: goodput {one.goodput:5.2f}/s, "
        f"{one.tokens_per_second:6.1f} tok/s, first {both(one.ttft)}, each {both(one.tpot)}, refused {one.refused}, "
        f"wrong {one.wrong}, right {one.right}/{one.judged}{against}"
    )
