"""`python -m tests.performance.arrivals`: requests that arrive at random, against every way of decoding, in turns.

    python -m tests.performance.arrivals --checkpoint assets/adapters/smollm2-135m-mars --minutes 9 --save assets/runs

Lanes of one server, which share the engine (tests/performance/lanes.py): AR, each fixed layout of exact decoding,
a table of layouts by the number of rows as vLLM has one, τ = 0.95, and the policies. First saturation is measured, what
AR answers when all places are always taken. Then, for each rate from idle to 1.3 of that, and for bursts, a trace of
arrivals is drawn for each turn, and each lane gets it, one after the other and in an order that moves on: several short
turns, since a machine's speed drifts within minutes.
guidellm cannot do that: it knows one model and one profile a run.

Goodput is answers a second whose first token came within --ttft and whose further tokens took at most --tpot each.
Texts of lanes that must write what AR writes are compared with AR's. Answers to the problems of mars/tasks are judged,
and of every lane beside AR it is said how many points of accuracy it gains or loses: its answer to each arrival is
compared with AR's to the same one, with the score interval of such pairs (analysis/stats/pairs.py). What a user gains
is AR's seconds per further token over the lane's, arrival by arrival, with an interval over questions.
A pretrained model is better asked what its users would ask, `--prompts assets/benchmarks/own/question.jsonl`: no one
judges that, and copies gain what they gain in such answers.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import os
import random
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from analysis.benchmarks.questions import read_questions
from analysis.runs.loads import Changes, Faster, LoadTest, Outcome, write_load
from analysis.stats.intervals import student
from analysis.stats.pairs import score_interval
from mars.provenance import provenance
from mars.schema import as_json, checked
from mars.tasks import TASKS, sample
from tests.performance.asking import Asked, ask, chat, quantile
from tests.performance.lanes import SAME_TEXT

RATES = (0.05, 0.3, 0.6, 0.9, 1.1, 1.3)  # of saturation
BURST_RATE, BURSTS_APART = 0.6, 4.0  # of saturation, seconds
DRAIN = 2.5  # seconds that the end of a trace takes, about
START = 75.0  # seconds before the first trace, about

Trace = list[tuple[float, int]]
"""Seconds and the number of a question, one for each request."""
Answers = Sequence[tuple[int, Asked]]
"""What came back of a trace: the number of the question, and the outcome, in the order of arrival."""


def poisson(rate: float, seconds: float, questions: int, seed: str) -> Trace:
    """Arrivals at random, `rate` a second; at least one."""
    dice = random.Random(seed)
    found, now = [], dice.expovariate(rate) % seconds
    while now < seconds:
        found.append((now, dice.randrange(questions)))
        now += dice.expovariate(rate)
    return found


def bursts(rate: float, seconds: float, questions: int, seed: str) -> Trace:
    """The same number of arrivals, all of some seconds at once."""
    dice = random.Random(seed)
    size = max(1, round(rate * BURSTS_APART))
    starts = [number * BURSTS_APART for number in range(math.ceil(seconds / BURSTS_APART))]
    return [(start, dice.randrange(questions)) for start in starts for _ in range(size)]


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and whether an answer to it is right, where that can be said."""

    prompt: str
    is_right: Callable[[str], bool] | None = None


def questions_of(count: int, seed: int, prompts: Path | None) -> list[Question]:
    """Problems of all families in turn, or the first turns of questions of a file, drawn at random.

    Raises:
        ValueError: the file cannot be read, or has fewer.
    """
    if prompts is None:
        kinds = list(TASKS)
        problems = [sample(kinds[number % len(kinds)], seed + number) for number in range(count)]
        return [Question(one.prompt, partial(TASKS[one.task].check, one)) for one in problems]
    found = read_questions(prompts)
    if count > len(found):
        raise ValueError(f"--questions must be at most {len(found)}, as many as {prompts} has, got {count}")
    return [Question(one.turns[0]) for one in random.Random(seed).sample(found, count)]


class Load:
    """Asks one server; texts by the number of the question."""

    def __init__(self, client: httpx.AsyncClient, questions: Sequence[Question], tokens: int) -> None:
        self._client = client
        self._questions = questions
        self._tokens = tokens
        self._judged: dict[tuple[int, str], bool] = {}
        self.texts: list[str] = []

    async def ask(self, lane: str, question: int) -> Asked:
        """One request to a lane."""
        return await ask(self._client, chat(self._questions[question].prompt, self._tokens, model=lane))

    async def alone(self) -> list[Asked]:
        """Every question to AR, one after the other: what all must write."""
        found = [await self.ask("ar", number) for number in range(len(self._questions))]
        self.texts = [one.text for one in found]
        return found

    async def warm(self, lane: str, clients: int) -> None:
        """Some questions one by one, some in pairs, and all by many at once."""
        for size, count in ((1, 2), (2, 4), (clients, len(self._questions))):
            for first in range(0, count, size):
                numbers = range(first, min(first + size, count))
                await asyncio.gather(*(self.ask(lane, number) for number in numbers))

    async def saturation(self, clients: int, seconds: float) -> float:
        """Requests a second that AR answers with so many clients that never wait."""
        until, answered = time.perf_counter() + seconds, 0

        async def client(number: int) -> None:
            nonlocal answered
            while time.perf_counter() < until:
                await self.ask("ar", number % len(self._questions))
                answered += 1
                number += clients

        began = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        return answered / (time.perf_counter() - began)

    async def play(self, lane: str, trace: Trace) -> list[tuple[int, Asked]]:
        """The requests of a trace at their times; returns when all are answered."""

        async def one(when: float, question: int) -> tuple[int, Asked]:
            await asyncio.sleep(when)
            return question, await self.ask(lane, question)

        return list(await asyncio.gather(*(one(*arrival) for arrival in trace)))

    def outcome(
        self,
        lane: str,
        load: str,
        seconds: float,
        found: Answers,
        limits: Any,
        base: Answers = (),
    ) -> Outcome:
        """The outcome of a trace on a lane; `base` are AR's answers to the same arrivals, if it is not AR's own."""
        done = [(question, asked) for question, asked in found if asked.finish is not None]
        first = [asked.first for _, asked in done if asked.first is not None]
        each = [per_token for _, asked in done if (per_token := asked.per_token) is not None]
        in_time = sum(
            (asked.first or 0.0) <= limits.ttft and (asked.per_token or 0.0) <= limits.tpot for _, asked in done
        )
        judged = [right for answer in found if (right := self._is_right(answer)) is not None]
        return Outcome(
            lane=lane,
            load=load,
            offered=len(found) / seconds,
            requests=len(found),
            refused=len(found) - len(done),
            goodput=in_time / seconds,
            tokens_per_second=sum(asked.tokens for _, asked in done) / seconds,
            ttft=(quantile(first, 0.5), quantile(first, 0.99)) if first else None,
            tpot=(quantile(each, 0.5), quantile(each, 0.99)) if each else None,
            wrong=sum(asked.text != self.texts[question] for question, asked in done) if lane in SAME_TEXT else 0,
            right=sum(judged),
            judged=len(judged),
            against_ar=self._changes(found, base) if base else None,
            faster=faster(found, base) if base else None,
        )

    def _is_right(self, answer: tuple[int, Asked]) -> bool | None:
        """Whether an answer is right; None where there is none, or it cannot be judged."""
        question, asked = answer
        check, key = self._questions[question].is_right, (question, asked.text)
        if check is None or asked.finish is None:
            return None
        if key not in self._judged:
            self._judged[key] = check(asked.text)
        return self._judged[key]

    def _changes(self, found: Answers, base: Answers) -> Changes | None:
        """How the answers differ from `base`, arrival by arrival; None where none is judged on both sides."""
        judged = [(self._is_right(ours), self._is_right(theirs)) for ours, theirs in zip(found, base, strict=True)]
        pairs = [(ours, theirs) for ours, theirs in judged if ours is not None and theirs is not None]
        if not pairs:
            return None
        return Changes(
            n=len(pairs),
            gained=sum(ours and not theirs for ours, theirs in pairs),
            lost=sum(theirs and not ours for ours, theirs in pairs),
        )


def faster(found: Answers, base: Answers) -> Faster | None:
    """How much less a further token takes than in `base`, AR's answers; None with fewer than two questions."""
    gains: dict[int, list[float]] = {}
    for (question, ours), (_, theirs) in zip(found, base, strict=True):
        if ours.per_token and theirs.per_token:
            gains.setdefault(question, []).append(math.log(theirs.per_token / ours.per_token))
    if len(gains) < 2:
        return None
    interval = student([statistics.fmean(of_one) for of_one in gains.values()])
    value, low, high = (math.exp(end) for end in (interval.value, interval.low, interval.high))
    return Faster(n=len(gains), value=value, low=low, high=high)


async def measure(
    url: str, lanes: Sequence[str], questions: Sequence[Question], options: argparse.Namespace
) -> dict[str, Any]:
    """All lanes under all traces."""
    any_number = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False, limits=any_number) as client:
        load = Load(client, questions, options.tokens)
        alone = await load.alone()
        usual = statistics.median(one.per_token for one in alone if one.per_token is not None)
        options.tpot = options.tpot or 2 * usual
        for lane in lanes:
            await load.warm(lane, options.places)
        longest = 6 * max(one.seconds for one in alone)  # else most of the time is the end, when few still write
        most = await load.saturation(options.places, max(min(10.0, options.seconds * 2), longest))
        results: list[Outcome] = []
        loads: list[tuple[str, float, Callable[..., Trace]]] = [(f"{rate:g}", rate, poisson) for rate in options.rates]
        loads.append(("bursts", BURST_RATE, bursts))
        for number, (name, rate, draw) in enumerate(loads):
            found: dict[str, list[tuple[int, Asked]]] = {lane: [] for lane in lanes}
            for turn in range(options.turns):
                seed = f"{options.seed} {name} {turn}"
                trace = draw(rate * most, options.seconds / options.turns, len(questions), seed)
                first = (number + turn) % len(lanes)
                for lane in [*lanes[first:], *lanes[:first]]:
                    found[lane] += await load.play(lane, trace)
            for lane in lanes:
                base = () if lane == "ar" else found.get("ar", ())
                results.append(load.outcome(lane, name, options.seconds, found[lane], options, base))
                _say(results[-1])
    return {
        "saturation": most,
        "tpot_alone": usual,
        "limits": {"ttft": options.ttft, "tpot": options.tpot},
        "results": [asdict(one) for one in results],
    }


def _say(one: Outcome) -> None:
    def both(pair: tuple[float, float] | None) -> str:
        return "      –      " if pair is None else f"{pair[0] * 1000:5.0f} {pair[1] * 1000:6.0f} ms"

    against = ""
    if found := one.against_ar:
        points = score_interval(found.gained, found.lost, found.n)
        against = f", {points.value:+.1f} points [{points.low:+.1f}, {points.high:+.1f}] n {found.n}"
    if gain := one.faster:
        against += f", {gain.value:.2f}x AR for a user [{gain.low:.2f}, {gain.high:.2f}] n {gain.n}"
    sys.stdout.write(
        f"{one.load:7} {one.lane:10} {one.requests:4} at {one.offered:5.2f}/s: goodput {one.goodput:5.2f}/s, "
        f"{one.tokens_per_second:6.1f} tok/s, first {both(one.ttft)}, each {both(one.tpot)}, refused {one.refused}, "
        f"wrong {one.wrong}, right {one.right}/{one.judged}{against}\n"
    )
    sys.stdout.flush()


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
    sizes = {"places": options.places, "queue": 4096, "context": options.context}
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
        loads = len(lanes) * (len(options.rates) + 1)
        options.seconds = max(0.3, (60 * options.minutes - START) / loads - options.turns * DRAIN)
        found = asyncio.run(measure(url, lanes, questions, options))
    except EOFError:
        raise SystemExit("the server did not start") from None
    finally:
        server.terminate()
    given = {name: getattr(options, name) for name in ("places", "seconds", "tokens", "questions", "seed")}
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
    add("--lanes", nargs="+", metavar="NAME", help=f"only these of {', '.join(SAME_TEXT)}, tau, knob")
    add("--turns", type=int, default=3, metavar="N", help="in which every lane gets each load (3)")
    add("--places", type=int, default=8, metavar="N", help="requests decoded at once (8)")
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
