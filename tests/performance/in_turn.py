"""The load test in one process: passes of all lanes take turns, each lane on a clock of its own.

A lane's clock adds the seconds of its own passes, the work of its controller included, and skips the time in which no
request is there (mars/decoding/simulated_lane.py). The lane whose clock is behind makes the next pass. So a machine
whose speed drifts does so for all lanes alike, and the same minutes give more requests than lanes that answer one after
the other in real time. HTTP and the writing of text take no time of these clocks. Each lane has rows, prompts and a
queue of its own; they share the weights alone.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from analysis.runs.loads import Outcome
from mars.checkpoint import Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.controller import Controller
from mars.decoding.service import LOOKAHEAD, Service, Stream
from mars.decoding.simulated_lane import Request, SimulatedLane
from mars.garbage import gc_frozen
from mars.serve.answers import Writer
from tests.performance.asking import Asked
from tests.performance.lanes import POLICIES, THRESHOLD, allowed_for, ways
from tests.performance.questions import Judge, Question, warming
from tests.performance.report import DRAIN, FULL, Found, facts, limits_of, named, origin, outcomes, verdict, write
from tests.performance.traces import Answers, Trace, dealt, length, named_loads, seconds_for

LONGEST_FULL = 30.0
"""Seconds of a lane's clock that saturation is measured at most, unless answers take longer."""


class Lanes(Judge):
    """Lanes of one checkpoint that answer questions by turns; `ways` are their decoders and controllers, by name.

    `queue` requests may wait for one of the `places` of a lane; others are refused. `watch` tells the seconds.

    Raises:
        ValueError: a prompt and its answer do not fit into the context.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        questions: Sequence[Question],
        ways: Mapping[str, tuple[str, Controller | None]],
        *,
        places: int,
        queue: int,
        context: int,
        tokens: int,
        watch: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(questions)
        self._checkpoint = checkpoint
        self._prompts = [checkpoint.encode_chat([{"role": "user", "content": one.prompt}]) for one in questions]
        context = min(context, checkpoint.engine.context_length)
        if (longest := max(map(len, self._prompts)) + tokens) > context:
            raise ValueError(f"--context must be >= {longest}, as long as the longest prompt and answer, got {context}")
        self._decoders = {name: decoder for name, (decoder, _) in ways.items()}
        self._services = {
            name: Service(checkpoint.engine, places, context + LOOKAHEAD, beside=True, controller=controller)
            for name, (_, controller) in ways.items()
        }
        self._settings = DecodingSettings(
            threshold=THRESHOLD, block_size=checkpoint.usual_block_size, max_new_tokens=tokens
        )
        self._places = places
        self._queue = queue
        self._watch = watch

    def alone(self) -> list[Asked]:
        """Every question to AR, one after the other: what all must write."""
        found = [self.race(["ar"], [(0.0, number)])["ar"][0][1] for number in range(len(self._prompts))]
        self.texts = [one.text for one in found]
        return found

    def warm(self, names: Sequence[str]) -> None:
        """Ask these lanes some questions one by one, some in pairs, and all by many at once; graphs come before."""
        for name in names:
            self._services[name].prepare(self._decoders[name], self._settings)
        for group in warming(self._places, len(self._prompts)):
            self.race(names, [(0.0, number) for number in group])

    def saturation(self, name: str, before: float, seconds: float) -> float:
        """Tokens a second that a lane writes while all its places are taken, `seconds` long after `before`."""
        lane, numbers = self._lane(name, ()), itertools.cycle(range(len(self._prompts)))

        def written() -> int:
            while lane.open < self._places:
                lane.offer(next(numbers))
            record = lane.step()
            return sum(row.accepted for row in record.rows) if record is not None else 0

        while lane.clock < before:
            written()
        start, tokens = lane.clock, 0
        while lane.clock < start + seconds:
            tokens += written()
        lane.close()
        return tokens / (lane.clock - start)

    def race(self, names: Sequence[str], trace: Trace) -> dict[str, Answers]:
        """The answers of these lanes to a trace; each begins at 0 of its clock and ends with its last answer."""
        lanes = {name: self._lane(name, trace) for name in names}
        running = list(lanes.values())
        while running:
            behind = min(running, key=lambda lane: lane.clock)
            behind.step()
            running = [lane for lane in running if not lane.done]
        return {name: [(one.number, self._asked(one)) for one in lane.requests] for name, lane in lanes.items()}

    def _lane(self, name: str, arrivals: Iterable[tuple[float, int]]) -> SimulatedLane:
        service, decoder, settings = self._services[name], self._decoders[name], self._settings

        def submit(number: int) -> Stream:
            control = Control(settings.threshold, settings.score, free=True)
            return service.submit(decoder, self._prompts[number], settings, control)

        return SimulatedLane(service, submit, arrivals, most=self._places + self._queue, watch=self._watch)

    def _asked(self, request: Request) -> Asked:
        """What a client of the endpoint would have seen, without the way there."""
        if request.refused:
            return Asked(status=429)
        writer = Writer(self._checkpoint, (), None)
        text = "".join(writer.add(record).text for record in request.records)
        return Asked(
            status=200,
            text=text,
            tokens=writer.tokens,
            first=None if request.first is None else request.first - request.arrived,
            seconds=0.0 if request.ended is None else request.ended - request.arrived,
            finish=writer.finish,
        )


def measure(questions: Sequence[Question], options: argparse.Namespace) -> dict[str, Any]:
    """All lanes under all traces, with the origin; the time to `options.minutes` is shared out among them.

    Raises:
        ValueError: a prompt is too long for --context.
    """
    began = time.perf_counter()
    if options.threads:
        torch.set_num_threads(options.threads)
    with gc_frozen():
        checkpoint = load_checkpoint(options.checkpoint)
    within = allowed_for(options.checkpoint, checkpoint, options.accuracy_budget, options.runs)
    known = ways(within, tpot=options.tpot, together=checkpoint.engine.static_shapes)
    names = [name for name in known if name in (options.lanes or known)]
    sizes = {"places": options.places, "queue": options.queue_size, "context": options.context}
    asked = {name: way for name, way in known.items() if name in ("ar", *names)}
    lanes = Lanes(checkpoint, questions, asked, tokens=options.tokens, **sizes)
    lanes.warm(["ar"])
    alone = lanes.alone()
    limits, usual, longest = limits_of(alone, options)
    lanes.warm([name for name in names if name != "ar"])
    wanted = max(FULL * longest, min(LONGEST_FULL, 6 * options.minutes))
    tokens = max(statistics.fmean(one.tokens for one in alone), 1.0)
    full = {
        name: lanes.saturation(name, longest, wanted) / tokens for name in ("ar", *POLICIES) if name in ("ar", *names)
    }
    lanes.race(names, [(0.0, number % options.questions) for number in range(options.places)])  # all keep these prompts
    minutes = (time.perf_counter() - began) / 60
    write(f"requests a second at saturation: {named(full)}; tpot {limits.tpot:.4f} s; {minutes:.1f} minutes")
    loads, seconds = _played(lanes, names, full["ar"], longest, began, options)
    results: list[Outcome] = []
    for name, rate, _ in named_loads(options.rates, with_bursts=options.bursts):
        results += outcomes(lanes, name, seconds * length(rate), loads[name], limits)
    comparisons = verdict(lanes, loads, limits, options)
    found = facts(full["ar"], seconds, usual, limits, results, comparisons)
    return origin(checkpoint, within) | found | {"in_turn": True}


def _played(
    lanes: Lanes, names: Sequence[str], saturation: float, longest: float, began: float, options: argparse.Namespace
) -> tuple[dict[str, Found], float]:
    """The answers to all loads, and how many seconds of a lane's clock a load took in all turns.

    A turn goes through all loads. The first one is as long as if lanes were never idle, the others as the time that is
    left allows.
    """
    loads = named_loads(options.rates, with_bursts=options.bursts)
    numbers = {name: dealt(options.questions, f"{options.seed} {name}") for name, _, _ in loads}
    found: dict[str, Found] = {name: {lane: [] for lane in names} for name, _, _ in loads}
    start, whole = time.perf_counter(), 0.0
    for turn in range(options.turns):
        now = time.perf_counter()
        left = (60 * options.minutes - (now - began)) / (options.turns - turn)
        if turn:
            seconds = max(left * whole / (now - start), 0.3)
        else:
            seconds = seconds_for(left, len(names), [rate for _, rate, _ in loads], 1, DRAIN * longest)
        whole += seconds
        for name, rate, draw in loads:
            trace = draw(rate * saturation, seconds * length(rate), numbers[name], f"{options.seed} {name} {turn}")
            for lane, answers in lanes.race(names, trace).items():
                found[name][lane].append(answers)
            minutes = (time.perf_counter() - began) / 60
            write(f"turn {turn + 1} of {options.turns}, {name}: {len(trace)} requests a lane; {minutes:.1f} minutes")
    return found, whole
