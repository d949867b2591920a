"""`python -m tests.performance.arrivals`: goodput of the endpoint while requests arrive at random.

    python -m tests.performance.arrivals --checkpoint assets/adapters/smollm2-135m-gated --save assets/runs

Every lane is a server of its own with the same checkpoint: AR, exact decoding and, with --thresholds, the policy
`knob`. Saturation is what AR answers while all its places are taken. For each rate, as a share of that, and each turn
one Poisson trace is drawn; the lanes get it one after the other, in an order that moves on, since a machine's speed
drifts. Goodput counts the answers whose first token came within --ttft and whose further tokens took at most --tpot.
Texts that must be AR's are compared with AR's; answers are judged, and compared with AR's to the same arrival.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from analysis.runs.loads import Changes, InTime, LoadTest, Outcome, write_load
from analysis.stats.pairs import PairedDifference
from mars.provenance import provenance
from mars.schema import checked
from mars.serve import QUEUE
from mars_tasks import TASKS, Problem, sample
from tests.performance.asking import Asked, ask, chat, quantile
from tests.performance.served import served

BASELINE = "ar"
LANES = {BASELINE: ("--decoder", "autoregressive"), "exact": (), "knob": ("--policy", "knob")}
"""The lanes, each with the options of its server."""
SAME_TEXT = (BASELINE, "exact")
RATES = (0.3, 0.9, 1.3)
Answers = list[tuple[int, Asked]]
"""The answers to a trace, each with the number of its question, in the order of their arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The servers by lane, and the problems that they are asked, in answers of at most so many tokens."""

    clients: dict[str, httpx.AsyncClient]
    problems: Sequence[Problem]
    tokens: int
    places: int

    async def ask(self, lane: str, question: int) -> Asked:
        """One request to a lane."""
        return await ask(self.clients[lane], chat(self.problems[question].prompt, self.tokens))

    async def alone(self) -> list[Asked]:
        """Every question to AR, one after the other."""
        return [await self.ask(BASELINE, number) for number in range(len(self.problems))]

    async def saturation(self, lane: str) -> float:
        """The requests a second that a lane answers while all its places are taken."""
        numbers = iter([number % len(self.problems) for number in range(max(8 * self.places, len(self.problems)))])
        answered, began = 0, time.perf_counter()

        async def client() -> None:
            nonlocal answered
            for number in numbers:
                await self.ask(lane, number)
                answered += 1

        await asyncio.gather(*(client() for _ in range(self.places)))
        return answered / (time.perf_counter() - began)

    async def play(self, lane: str, trace: Sequence[tuple[float, int]]) -> Answers:
        """The answers to the requests of a trace, which come at their times; returns when all are there."""

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
        limits: InTime,
        alone: Sequence[Asked],
        base: Answers,
    ) -> Outcome:
        """What came of a lane's traces of so many seconds; `base` are AR's answers to the same arrivals."""
        done = [(question, asked) for question, asked in found if asked.finish is not None]
        first = [asked.first for _, asked in done if asked.first is not None]
        each = [asked.per_token for _, asked in done if asked.per_token is not None]
        return Outcome(
            lane=lane,
            load=load,
            offered=len(found) / seconds,
            requests=len(found),
            refused=len(found) - len(done),
            goodput=sum(is_in_time(asked, limits) for _, asked in found) / seconds,
            tokens_per_second=sum(asked.tokens for _, asked in done) / seconds,
            ttft=(quantile(first, 0.5), quantile(first, 0.99)) if first else None,
            tpot=(quantile(each, 0.5), quantile(each, 0.99)) if each else None,
            wrong=sum(asked.text != alone[number].text for number, asked in done) if lane in SAME_TEXT else 0,
            right=sum(map(self._is_right, done)),
            judged=len(done),
            against_ar=None if lane == BASELINE else self._changes(found, base),
        )

    def _is_right(self, answer: tuple[int, Asked]) -> bool:
        problem = self.problems[answer[0]]
        return TASKS[problem.task].check(problem, answer[1].text)

    def _changes(self, found: Answers, base: Answers) -> Changes | None:
        both = [pair for pair in zip(found, base, strict=True) if all(asked.finish for _, asked in pair)]
        right = [(self._is_right(ours), self._is_right(theirs)) for ours, theirs in both]
        gained, lost = (right.count(pair) for pair in ((True, False), (False, True)))
        return Changes(n=len(right), gained=gained, lost=lost) if right else None


def is_in_time(asked: Asked, limits: InTime) -> bool:
    """Whether an answer came, its first token and its further ones fast enough."""
    fast = (asked.first or 0.0) <= limits.ttft and (asked.per_token or 0.0) <= limits.tpot
    return asked.finish is not None and fast


def poisson(rate: float, seconds: float, questions: int, seed: int) -> list[tuple[float, int]]:
    """Arrivals of a Poisson process, given their number; each question comes as often as the others."""
    random, count = np.random.default_rng(seed), max(1, round(rate * seconds))
    order = itertools.islice(itertools.cycle(random.permutation(questions).tolist()), count)
    return list(zip(np.sort(random.uniform(0, seconds, count)).tolist(), order, strict=True))


async def measure(load: Load, options: argparse.Namespace) -> dict[str, Any]:
    """All lanes under all rates: the measured fields of a load test."""
    alone = await load.alone()
    usual = statistics.median(asked.per_token for asked in alone if asked.per_token is not None)
    limits = InTime(ttft=options.ttft, tpot=options.tpot or 2 * usual)
    full = {lane: await load.saturation(lane) for lane in load.clients}
    seconds = 60 * options.minutes / (len(load.clients) * len(options.rates) * options.turns)
    _write(
        f"at saturation {', '.join(f'{lane} {rate:.2f}/s' for lane, rate in full.items())}; tpot {limits.tpot:.4f} s"
    )
    results = []
    for number, rate in enumerate(options.rates):
        found: dict[str, Answers] = {lane: [] for lane in load.clients}
        for turn in range(options.turns):
            seed = 1000 * options.seed + 100 * number + turn
            trace = poisson(rate * full[BASELINE], seconds, len(load.problems), seed)
            order = list(load.clients)
            for lane in order[turn % len(order) :] + order[: turn % len(order)]:
                found[lane] += await load.play(lane, trace)
        for lane, answers in found.items():
            whole = seconds * options.turns
            one = load.outcome(lane, f"{rate:g}", whole, answers, limits, alone, found[BASELINE])
            results.append(one)
            _write(_line(one))
    return {
        "saturation": full[BASELINE],
        "seconds": seconds * options.turns,
        "tpot_alone": usual,
        "limits": asdict(limits),
        "results": [asdict(one) for one in results],
    }


def _line(one: Outcome) -> str:
    against = ""
    if changes := one.against_ar:
        points = PairedDifference(n=changes.n, gained=changes.gained, lost=changes.lost).score_interval()
        against = f", {points.value:+.1f} points to AR [{points.low:+.1f}, {points.high:+.1f}]"
    times = [f"{pair[0]:.3f} s (p99 {pair[1]:.3f})" if pair else "–" for pair in (one.ttft, one.tpot)]
    return (
        f"{one.load:5} {one.lane:6} {one.requests} at {one.offered:.2f}/s: goodput {one.goodput:.2f}/s, first token "
        f"{times[0]}, further ones {times[1]}, refused {one.refused}, wrong {one.wrong}, right {one.right}/{one.judged}"
        f"{against}"
    )


async def _measured(urls: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    kinds = list(TASKS)
    problems = [sample(kinds[number % len(kinds)], options.seed + number) for number in range(options.questions)]
    any_number = httpx.Limits(max_connections=None)
    async with AsyncExitStack() as stack:
        clients = {}
        for lane, url in urls.items():
            client = httpx.AsyncClient(
                base_url=url.removesuffix("/v1"), timeout=600, trust_env=False, limits=any_number
            )
            clients[lane] = await stack.enter_async_context(client)
        load = Load(clients=clients, problems=problems, tokens=options.tokens, places=options.places)
        return await measure(load, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line for each rate and lane, and keep the test; 1 when a text was wrong."""
    options, for_the_servers = parser().parse_known_args(arguments)
    lanes = [lane for lane in LANES if lane != "knob" or options.thresholds]
    thresholds = ("--thresholds", options.thresholds)
    shared = ["--checkpoint", options.checkpoint, "--dtype", options.dtype, "--threads", str(options.threads)]
    shared += ["--places", str(options.places), "--queue-size", str(options.queue_size), "--port", "0"]
    with ExitStack() as stack:
        urls = {
            lane: stack.enter_context(
                served([*shared, *LANES[lane], *(thresholds if lane == "knob" else ()), *for_the_servers], "mars.serve")
            )[0]
            for lane in lanes
        }
        found = asyncio.run(_measured(urls, options))
    command = shlex.join(["python", "-m", "tests.performance.arrivals", *(arguments or sys.argv[1:])])
    given = {name: getattr(options, name) for name in ("places", "tokens", "questions", "seed", "threads", "dtype")}
    test: LoadTest = checked(
        LoadTest,
        {
            "schema": 1,
            "model": Path(options.checkpoint).name,
            "thresholds": (),
            **provenance(command, "cuda" if torch.cuda.is_available() else "cpu"),
            **given,
            **found,
        },
        "the load test",
    )
    if options.save is not None:
        _write(str(write_load(options.save, test)))
    return 1 if any(one.wrong for one in test.results) else 0


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def parser() -> argparse.ArgumentParser:
    """The command line; what it does not know goes to the servers."""
    command = argparse.ArgumentParser(
        prog="python -m tests.performance.arrivals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Further options are those of python -m mars.serve.",
    )
    add = command.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help="one with trained masks")
    add("--minutes", type=float, default=9.0, metavar="M", help="of all traces together (9)")
    add("--rates", type=float, nargs="+", default=RATES, metavar="R", help="of saturation (0.3 0.9 1.3)")
    add("--turns", type=int, default=3, metavar="N", help="in which every lane gets each rate (3)")
    add("--places", type=int, default=8, metavar="N", help="requests decoded at once (8)")
    add("--queue-size", type=int, default=QUEUE, metavar="N", help=f"requests that may wait; others get 429 ({QUEUE})")
    add("--tokens", type=int, default=64, metavar="N", help="of an answer at most (64)")
    add("--questions", type=int, default=24, metavar="N", help="different ones (24)")
    add("--dtype", default="bfloat16", metavar="NAME", help="of the weights (bfloat16)")
    add("--threads", type=int, default=torch.get_num_threads(), metavar="N", help="CPU threads of a pass")
    add("--ttft", type=float, default=1.0, metavar="S", help="seconds to the first token that are in time (1)")
    add("--tpot", type=float, metavar="S", help="seconds per further token that are (default: twice AR's alone)")
    add("--thresholds", default="", metavar="T,T,…", help="adds the lane of the policy knob")
    add("--seed", type=int, default=1, metavar="S", help="which questions, and when")
    add("--save", type=Path, metavar="DIR", help="add the test to this run store, for Under load in Trade-offs")
    return command


if __name__ == "__main__":
    sys.exit(main())
