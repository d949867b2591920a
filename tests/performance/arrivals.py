"""`python -m tests.performance.arrivals`: requests that arrive at random, against every way of decoding, in turns.

    python -m tests.performance.arrivals --checkpoint assets/adapters/smollm2-135m-mars --minutes 9 --save assets/runs

Lanes of one server, which share the engine (tests/performance/lanes.py): AR, each fixed layout of exact decoding,
a table of layouts by the number of rows as vLLM has one, τ = 0.95, and the policies. First saturation is measured, what
AR answers when all places are always taken. Then, for each rate from idle to 1.3 of that, and for bursts, a trace of
arrivals is drawn for each turn (tests/performance/traces.py), and each lane gets it, one after the other, in an order
that moves on: several turns, since a machine's speed drifts within minutes, but so long that a queue can grow.
guidellm cannot do that: it knows one model and one profile a run.
With --in-turn there is no server: all lanes answer a trace at once in one process, each on a simulated clock
(tests/performance/in_turn.py).

Goodput is answers a second whose first token came within --ttft and whose further tokens took at most --tpot each; a
request that finds the queue full (--queue-size) is refused and so not in time. Beyond saturation a long queue makes all
answers late, in every lane: an operator who wants answers in time keeps it as short as --ttft.
Texts of lanes that must write what AR writes are compared with AR's. Answers to the problems of mars/tasks are judged,
and of every lane beside AR it is said how many points of accuracy it gains or loses: its answer to each arrival is
compared with AR's to the same one, with the score interval of such pairs (analysis/stats/pairs.py). What a user gains
is AR's seconds per further token over the lane's, arrival by arrival, with an interval over questions. Last comes the
verdict (tests/performance/verdict.py): at each rate the goodput of the policies over that of the best fixed setting, AR
and each other, with intervals.
A pretrained model is better asked what its users would ask, `--prompts assets/benchmarks/own/question.jsonl`, in whose
answers copies gain what they gain there; no one judges these. Whether its answers follow instructions can be judged
(`--instructions assets/benchmarks/verifiable/input_data.jsonl`).
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from analysis.runs.loads import LoadTest, Outcome, write_load
from mars.schema import as_json, checked
from mars.serve import QUEUE
from tests.performance import in_turn
from tests.performance.lanes import POLICIES, SAME_TEXT
from tests.performance.questions import Load, Question, questions_of
from tests.performance.report import DRAIN, FULL, Found, facts, limits_of, named, origin, outcomes, verdict, write
from tests.performance.served import end_without
from tests.performance.traces import Trace, dealt, length, named_loads, seconds_for

RATES = (0.05, 0.3, 0.6, 0.9, 1.1, 1.3)  # of saturation


async def measure(
    url: str, lanes: Sequence[str], questions: Sequence[Question], options: argparse.Namespace
) -> dict[str, Any]:
    """All lanes under all traces; the time to `options.minutes` is shared out among them."""
    any_number, began = httpx.Limits(max_connections=None), time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False, limits=any_number) as client:
        load = Load(client, questions, options.tokens)
        alone = await load.alone()
        limits, usual, longest = limits_of(alone, options)
        for lane in lanes:
            await load.warm(lane, options.places)
        measured = max(FULL * longest, min(10.0, 6 * options.minutes))
        full = {
            lane: await load.saturation(lane, options.places, longest, measured)
            for lane in ("ar", *POLICIES)
            if lane in (*lanes, "ar")
        }
        kinds = named_loads(options.rates, with_bursts=options.bursts)
        left = 60 * options.minutes - (time.perf_counter() - began)
        rates = [rate for _, rate, _ in kinds]
        seconds = seconds_for(left, len(lanes), rates, options.turns, DRAIN * longest)
        write(f"requests a second at saturation: {named(full)}; traces of {seconds:.0f} s, tpot {limits.tpot:.4f} s")
        results: list[Outcome] = []
        loads: dict[str, Found] = {}
        for number, (name, rate, draw) in enumerate(kinds):
            whole = seconds * length(rate)
            loads[name] = await _played(load, name, partial(draw, rate * full["ar"]), whole, lanes, number, options)
            results += outcomes(load, name, whole, loads[name], limits)
    comparisons = verdict(load, loads, limits, options)
    return facts(full["ar"], seconds, usual, limits, results, comparisons)


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


def serve(options: argparse.Namespace, told: Connection) -> None:
    """The server, in a process of its own: tells its address, its lanes, and where it came from."""
    import torch
    import uvicorn

    from mars.checkpoint import load_checkpoint
    from mars.garbage import gc_frozen
    from mars.serve.__main__ import bind
    from mars.serve.guard import Limits
    from mars.serve.metrics import Metrics
    from mars.serve.routes import build
    from tests.performance.lanes import allowed_for, lanes

    if options.threads:
        torch.set_num_threads(options.threads)
    with gc_frozen():
        checkpoint = load_checkpoint(options.checkpoint)
    metrics = Metrics()
    within = allowed_for(options.checkpoint, checkpoint, options.accuracy_budget, options.runs)
    sizes = {"places": options.places, "queue": options.queue_size, "context": options.context}
    models = lanes(checkpoint, metrics, within=within, tpot=options.tpot, **sizes)
    app = build(models, Limits(connections=10_000), None, metrics)
    listening = bind("127.0.0.1", 0)
    threading.Thread(target=end_without, args=(told,), daemon=True).start()
    told.send((f"http://127.0.0.1:{listening.getsockname()[1]}", list(models.names), origin(checkpoint, within)))
    # No connection that waits is closed under a client that is about to use it.
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_keep_alive=3600)
    uvicorn.Server(config).run(sockets=[listening])


def served(questions: Sequence[Question], options: argparse.Namespace) -> dict[str, Any]:
    """All lanes under all traces, over HTTP and in real time, with the origin."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(options, theirs), daemon=True)
    server.start()
    theirs.close()
    try:
        url, known, came_from = ours.recv()
        lanes = [lane for lane in known if lane in (options.lanes or known)]
        return came_from | asyncio.run(measure(url, lanes, questions, options))
    except EOFError:
        raise SystemExit("the server did not start") from None
    finally:
        server.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line for each lane and load, and write the file; 1 when a text was wrong."""
    options = parser().parse_args(arguments)
    try:
        questions = questions_of(options.questions, options.seed, options.prompts, options.instructions)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    found = in_turn.measure(questions, options) if options.in_turn else served(questions, options)
    given = {name: getattr(options, name) for name in ("places", "tokens", "questions", "seed")}
    test: LoadTest = checked(LoadTest, {"schema": 1, **given, **found}, "the load test")
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
    add("--in-turn", action="store_true", help="one process without HTTP, a simulated clock for each lane")
    add("--no-bursts", dest="bursts", action="store_false", help="only requests at random")
    add("--lanes", nargs="+", metavar="NAME", help=f"only these of {', '.join(SAME_TEXT)}, tau, knob")
    add("--turns", type=int, default=3, metavar="N", help="in which every lane gets each load (3)")
    add("--places", type=int, default=8, metavar="N", help="requests decoded at once (8)")
    add("--queue-size", type=int, default=QUEUE, metavar="N", help=f"requests that may wait; others get 429 ({QUEUE})")
    add("--context", type=int, default=768, metavar="N", help="tokens of prompt and answer (768)")
    add("--tokens", type=int, default=64, metavar="N", help="of an answer at most (64)")
    add("--questions", type=int, default=24, metavar="N", help="different ones (24)")
    asked = command.add_mutually_exclusive_group()
    asked.add_argument(
        "--prompts", type=Path, metavar="FILE", help="questions in Spec-Bench's form, not judged, instead of problems"
    )
    asked.add_argument(
        "--instructions", type=Path, metavar="FILE", help="prompts in IFEval's form, judged by its checks, instead"
    )
    add("--threads", type=int, metavar="N", help="CPU threads of a pass")
    add("--ttft", type=float, default=1.0, metavar="S", help="seconds to the first token that are in time (1)")
    add(
        "--tpot",
        type=float,
        metavar="S",
        help="seconds per further token that are: the policies know it (default: twice AR's, unknown)",
    )
    add("--accuracy-budget", type=float, metavar="POINTS", help="adds the lane of the policy knob")
    add("--runs", type=Path, default=Path("assets/runs"), metavar="DIR", help="the cached runs that it goes by")
    add("--seed", type=int, default=1, metavar="S", help="which questions, and when")
    add("--json", type=Path, metavar="FILE", help="write everything there")
    add("--save", type=Path, metavar="DIR", help="add it to this run store, for Under load in Trade-offs")
    return command


if __name__ == "__main__":
    sys.exit(main())
