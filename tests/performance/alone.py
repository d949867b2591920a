"""The lanes of a finished run once more, with nothing around their decoders: what the page is compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from app.compare.starting import LanePass, race
from app.runs.run import RunLane, read
from app.server.options import Options
from mars.checkpoint import Checkpoint
from mars.metrics import Tally
from tests.performance.cores import only
from tests.performance.endless import Endless


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens and device seconds of one lane."""

    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of model time."""
        return self.tokens / self.seconds


def shown_speeds(document: Mapping[str, Any]) -> list[Speed]:
    """The speed of each lane of a run with the page attached."""
    return [_speed(lane) for lane in read(json.dumps(document)).lanes]


class Alone:
    """Decodes what a run asked for, by itself, with what the app would load and as it would, on the app's cores."""

    def __init__(self, chosen: Options, cores: frozenset[int]) -> None:
        self._cores = cores
        self._sources = chosen.sources
        self._loaded: dict[str, Checkpoint] = {}
        self._load = Endless(chosen.device, chosen.threads)

    def speeds(self, document: Mapping[str, Any]) -> list[Speed]:
        """The speed of each lane without a page, the lanes taking turns as they do there."""
        with only(self._cores):
            return self._speeds(document)

    def _speeds(self, document: Mapping[str, Any]) -> list[Speed]:
        from mars.decoding import DECODERS

        run = read(json.dumps(document))
        running = {}
        for lane in run.lanes:
            checkpoint = self._checkpoint(lane.checkpoint)
            prompt = checkpoint.encode(run.question.prompt)
            running[lane.key] = DECODERS[lane.decoder](checkpoint.engine, [prompt], lane.settings)
        tallies = {lane: Tally() for lane in running}
        for event in race(running, lambda _: nullcontext()):
            if isinstance(event, LanePass):
                tallies[event.lane].add(event.record)
        return [Speed(tally.tokens, tally.seconds) for tally in tallies.values()]

    def _checkpoint(self, name: str) -> Checkpoint:
        if name not in self._loaded:
            self._loaded[name] = self._load(self._sources[name])
        return self._loaded[name]


def _speed(lane: RunLane) -> Speed:
    tally = Tally.of(lane.records)
    return Speed(tally.tokens, tally.seconds)
