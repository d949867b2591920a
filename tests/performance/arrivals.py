"""`python -m tests.performance.arrivals`: requests that arrive at random, against every way of decoding, in turns.

    python -m tests.performance.arrivals --checkpoint assets/adapters/smollm2-135m-mars --minutes 9 --save assets/runs

Lanes of one server, which share the engine (tests/performance/lanes.py): AR, each fixed layout of exact decoding,
a table of layouts by the number of rows as vLLM has one, τ = 0.95, and the policies. First saturation is measured, what
AR answers when all places are always taken. Then, for each rate from idle to 1.3 of that, and for bursts, a trace of
arrivals is drawn for each turn (tests/performance/traces.py), and each lane gets it, one after the other, in an order
that moves on: several turns, since a machine's speed drifts within minutes, but so long that a queue can grow.
guidellm cannot do that: it knows one model and one profile a run.

Goodput is answers a second whose first token came within --ttft and whose further tokens took at most --tpot each; a
request that finds the queue full (--queue-size) is refused and so not in time. Beyond saturation a long queue makes all
answers late, in every lane: an operator who wants answers in time keeps it as short as --ttft.
Texts of lanes that must write what AR writes are compared with AR's. Answers to the problems of mars/tasks are judged,
and of every lane beside AR it is said how many points of accuracy it gains or loses: its answer to each arrival is
compared with AR's to the same one, with the score interval of such pairs (analysis/stats/pairs.py). What a user gains
is AR's seconds per further token over the lane's, arrival by arrival, with an interval over questions. Last comes the
verdict (tests/performance/verdict.py): at each rate the goodput of the policies over that of the best fixed setting, AR
and each other, with intervals.
A pretrained model is better asked what its users would ask, `--prompts assets/benchmarks/own/question.jsonl`: no one
judges that, and copies gain what they gain in such answers.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from analysis.runs.loads import Comparison, Faster, InTime, LoadTest, Outcome, write_load
from analysis.stats.intervals import Interval
from analysis.stats.pairs import PairedDifference
from mars.provenance import provenance
from mars.schema import as_json, checked
from mars.serve import QUEUE
from tests.performance.asking import Asked
from tests.performance.lanes import FIXED_LANES, POLICIES, SAME_TEXT
from tests.performance.questions import Load, Question, questions_of
from tests.performance.traces import Answers, Draw, Trace, bursts, dealt, length, poisson, seconds_for
from tests.performance.verdict import LITTLE, best_of, compared, faster, points_gained, sentences

RATES = (0.05, 0.3, 0.6, 0.9, 1.1, 1.3)  # of saturation
BURST_RATE, BURSTS = 0.6, "bursts"
DRAIN = 1.5  # times the longest answer of AR alone: what the end of a trace takes, about
FULL = 4  # times the same: how long saturation is measured at least, after as long as that answer takes

Found = dict[str, list[Answers]]
"""The answers to a load, by lane and turn."""


async def measure(
    url: str, lanes: Sequence[str], questions: Sequence[Question], options: argparse.Namespace
) -> dict[str, Any]:
    """All lanes under all traces; the time to `options.minutes` is shared out among them."""
    any_number, began = httpx.Limits(max_connections=None), time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False, limits=any_number) as client:
        load = Load(client, questions, options.tokens)
        alone = await load.alone()
        usual = statistics.median(one.per_token for one in alone if one.per_token is not None)
        limits = InTime(ttft=options.ttft, tpot=options.tpot or 2 * usual)
        longest = max(one.seconds for one in alone)
        for lane in lanes:
            await load.warm(lane, options.places)
        measured = max(FULL * longest, min(10.0, 6 * options.minutes))
        full = {
            lane: await load.saturation(lane, options.places, longest, measured)
            for lane in ("ar", *POLICIES)
            if lane in (*lanes, "ar")
        }
        rates = [*options.rates, BURST_RATE] if options.bursts else options.rates
        left = 60 * options.minutes - (time.perf_counter() - began)
        seconds = seconds_for(left, len(lanes), rates, options.turns, DRAIN * longest)
        _write(f"requests a second at saturation: {_named(full)}; traces of {seconds:.0f} s, tpot {limits.tpot:.4f} s")
        results: list[Outcome] = []
        loads: dict[str, Found] = {}
        for number, rate in enumerate(rates):
            name = BURSTS if number == len(options.rates) else f"{rate:g}"
            draw: Draw = bursts if name == BURSTS else poisson
            whole = seconds * length(rate)
            loads[name] = await _played(load, name, partial(draw, rate * full["ar"]), whole, lanes, number, options)
            flat = {lane: [one for turn in turns for one in turn] for lane, turns in loads[name].items()}
            for lane in lanes:
                base = () if lane == "ar" else flat.get("ar", ())
                results.append(load.outcome(lane, name, whole, flat[lane], limits, base))
                _say(results[-1])
    comparisons = list(_comparisons(loads, limits, options.places))
    for sentence in sentences(comparisons, _gain(loads), _accuracy(load, loads), options.accuracy_budget):
        _write(sentence)
    return {
        "saturation": full["ar"],
        "seconds": seconds,
        "tpot_alone": usual,
        "limits": asdict(limits),
        "results": [asdict(one) for one in results],
        "comparisons": [asdict(one) for one in comparisons],
    }


async def _played(
    load: Load,
    name: str,
    draw: Callable[[float, Iterator[int], str], Trace],
    seconds: float,
    lanes: Sequence[str],
    first: int,
    options: argparse.Namespace,
) -> Found:
    """Every lane's answers to a trace for each turn, all of them `seconds` long; lane number `first` begins."""
    numbers = dealt(options.questions, f"{options.seed} {name}")
    found: Found = {lane: [] for lane in lanes}
    for turn in range(options.turns):
        trace = draw(seconds / options.turns, numbers, f"{options.seed} {name} {turn}")
        start = (first + turn) % len(lanes)
        for lane in [*lanes[start:], *lanes[:start]]:
            found[lane].append(await load.play(lane, trace))
    return found


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
                _write(f"{name:7} goodput of {lane} / {other}: {other} has none")
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


def _accuracy(load: Load, loads: Mapping[str, Found]) -> tuple[Interval, int] | None:
    heavy = [_flat(loads, lane, lambda rate: rate >= 1) for lane in ("knob", "ar")]
    return points_gained(load.pairs(*heavy)) if all(heavy) else None


def _named(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _write(line: str) -> None:
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
    _write(
        f"{one.load:7} {one.lane:10} {one.requests:4} at {one.offered:5.2f}/s: goodput {one.goodput:5.2f}/s, "
        f"{one.tokens_per_second:6.1f} tok/s, first {both(one.ttft)}, each {both(one.tpot)}, refused {one.refused}, "
        f"wrong {one.wrong}, right {one.right}/{one.judged}{against}"
    )


def serve(options: argparse.Namespace, told: Connection) -> None:
    """The server, in a process of its own: tells its address, its lanes, and where it came from."""
    import torch
    import uvicorn

    from mars.checkpoint import load_checkpoint
    from mars.serve.__main__ import bind
    from mars.serve.guard import Limits
    from mars.serve.metrics import Metrics
    from mars.serve.routes import build
    from tests.performance.lanes import lanes, thresholds_for

    if options.threads:
        torch.set_num_threads(options.threads)
    checkpoint = load_checkpoint(options.checkpoint)
    metrics = Metrics()
    thresholds = thresholds_for(options.checkpoint, checkpoint, options.accuracy_budget, options.runs)
    sizes = {"places": options.places, "queue": options.queue_size, "context": options.context}
    models = lanes(checkpoint, metrics, thresholds=thresholds, **sizes)
    app = build(models, Limits(connections=10_000), None, metrics)
    listening = bind("127.0.0.1", 0)
    origin = provenance(shlex.join(["python", "-m", "tests.performance.arrivals", *sys.argv[1:]]))
    origin |= {
        "threads": torch.get_num_threads(),
        "dtype": checkpoint.dtype,
        "thresholds": thresholds,
        "model": checkpoint.name,
    }
    threading.Thread(target=end_without, args=(told,), daemon=True).start()
    told.send((f"http://127.0.0.1:{listening.getsockname()[1]}", list(models.names), origin))
    # No connection that waits is closed under a client that is about to use it.
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_keep_alive=3600)
    uvicorn.Server(config).run(sockets=[listening])


def end_without(parent: Connection) -> None:
    """End this process once the one that asked for it is gone, however that ended."""
    with suppress(EOFError, OSError):
        parent.recv()
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line for each lane and load, and write the file; 1 when a text was wrong."""
    options = parser().parse_args(arguments)
    try:
        questions = questions_of(options.questions, options.seed, options.prompts)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(options, theirs), daemon=True)
    server.start()
    theirs.close()
    try:
        url, known, origin = ours.recv()
        lanes = [lane for lane in known if lane in (options.lanes or known)]
        found = asyncio.run(measure(url, lanes, questions, options))
    except EOFError:
        raise SystemExit("the server did not start") from None
    finally:
        server.terminate()
    given = {name: getattr(options, name) for name in ("places", "tokens", "questions", "seed")}
    test: LoadTest = checked(LoadTest, {"schema": 1, **origin, **given, **found}, "the load test")
    if options.json is not None:
        options.json.write_text(as_json(test) + "\n", encoding="utf-8")
    if options.save is not None:
        sys.stdout.write(f"{write_load(options.save, test)}\n")
    return 1 if any(one.wrong for one in test.results) else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(prog="python -m tests.performance.arrivals", description=__doc__)
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    add = command.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help="one with trained masks")
    add("--minutes", type=float, default=9.0, metavar="M", help="how long it takes, about (9)")
    add("--rates", type=float, nargs="+", default=RATES, metavar="R", help="of saturation (0.05 0.3 0.6 0.9 1.1 1.3)")
    add("--no-bursts", dest="bursts", action="store_false", help="only requests at random")
    add("--lanes", nargs="+", metavar="NAME", help=f"only these of {', '.join(SAME_TEXT)}, tau, knob")
    add("--turns", type=int, default=3, metavar="N", help="in which every lane gets each load (3)")
    add("--places", type=int, default=8, metavar="N", help="requests decoded at once (8)")
    add("--queue-size", type=int, default=QUEUE, metavar="N", help=f"requests that may wait; others get 429 ({QUEUE})")
    add("--context", type=int, default=768, metavar="N", help="tokens of prompt and answer (768)")
    add("--tokens", type=int, default=64, metavar="N", help="of an answer at most (64)")
    add("--questions", type=int, default=24, metavar="N", help="different ones (24)")
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="questions in Spec-Bench's form instead of problems that are judged",
    )
    add("--threads", type=int, metavar="N", help="CPU threads of a pass")
    add("--ttft", type=float, default=1.0, metavar="S", help="seconds to the first token that are in time (1)")
    add("--tpot", type=float, metavar="S", help="seconds per further token that are (default: twice AR's, alone)")
    add("--accuracy-budget", type=float, metavar="POINTS", help="adds the lane of the policy knob")
    add("--runs", type=Path, default=Path("assets/runs"), metavar="DIR", help="the cached runs that it goes by")
    add("--seed", type=int, default=1, metavar="S", help="which questions, and when")
    add("--json", type=Path, metavar="FILE", help="write everything there")
    add("--save", type=Path, metavar="DIR", help="add it to this run store, for Under load in Trade-offs")
    return command


if __name__ == "__main__":
    sys.exit(main())
