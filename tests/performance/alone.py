"""The lanes of a finished run once more, with nothing around their decoders: what the page is compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from app.compare.starting import LanePass, race
from app.runs.run import read
from app.server.options import Options
from mars.checkpoint import Checkpoint
from mars.metrics import Tally
from tests.performance.cores import only
from tests.performance.endless import Endless


def shown_tallies(document: Mapping[str, Any]) -> list[Tally]:
    """What each lane of a run wrote, and in which time, with the page attached."""
    return [Tally.of(lane.records) for lane in read(json.dumps(document)).lanes]


class Alone:
    """Decodes what a run asked for, by itself, with what the app would load and as it would, on the app's cores."""

    def __init__(self, chosen: Options, cores: frozenset[int]) -> None:
        self._cores = cores
        self._sources = chosen.sources
        self._loaded: dict[str, Checkpoint] = {}
        self._load = Endless(chosen.device, chosen.threads)

    def tallies(self, document: Mapping[str, Any]) -> list[Tally]:
        """The same without a page, the lanes taking turns as they do there."""
        from mars.decoding import DECODERS

        run = read(json.dumps(document))
        tallies = {lane.key: Tally() for lane in run.lanes}
        with only(self._cores):
            running = {}
            for lane in run.lanes:
                checkpoint = self._checkpoint(lane.checkpoint)
                prompt = checkpoint.encode(run.question.prompt)
                running[lane.key] = DECODERS[lane.decoder](checkpoint.engine, [prompt], lane.settings)
            for event in race(running, lambda _: nullcontext()):
                if isinstance(event, LanePass):
                    tallies[event.lane].add(event.record)
        return list(tallies.values())

    def _checkpoint(self, name: str) -> Checkpoint:
        if name not in self._loaded:
            self._loaded[name] = self._load(self._sources[name])
        return self._loaded[name]
