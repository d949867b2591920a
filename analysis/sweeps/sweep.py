"""Makes runs: decodes those that the store lacks chunk by chunk, so that an interrupted sweep can go on.

Timed runs take turns, chunk by chunk in a rotating order, each after a warm-up chunk, so that a machine that gets
slower or faster affects all alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tqdm import tqdm

from analysis.benches.bench import rotated, without_collections
from analysis.runs import read_runs
from analysis.sweeps.cluster import Cluster
from analysis.sweeps.jobs import Chunk, Job, decode_chunk
from analysis.sweeps.models import Models
from analysis.sweeps.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Ids of runs: `run` are new in the store, `skipped` were there before."""

    run: tuple[str, ...]
    skipped: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Runs to make: in each list those that take turns. `provenance` is that of all entries, without the date.

    `bar` counts the questions left at the start: earlier ones would make the rest look faster. With a `cluster` the
    chunks are decoded there.
    """

    turns: Sequence[Sequence[Job]]
    work: Work
    provenance: Mapping[str, Any]
    bar: tqdm
    cluster: Cluster | None = None
    models: Models = field(default_factory=Models)

    def run(self) -> Swept:
        """Decode what is missing; ValueError, one sentence about the setting or file at fault."""
        start = time.perf_counter()
        timed = next((job for turn in self.turns for job in turn if job.setting["timed"]), None)
        if timed is not None and self.cluster is not None:
            raise ValueError(f"group {timed.setting['group']} is timed, and the tasks of a cluster slow one another")
        with self.work.alone():
            store = read_runs(self.work.folder)
            missing = [[job for job in turn if job.id not in store.frames] for turn in self.turns]
            skipped = [job for turn in self.turns for job in turn if job.id in store.frames]
            for job in skipped:
                self.work.clear(job)
            self._run(missing)
        return Swept(
            run=tuple(job.id for turn in missing for job in turn),
            skipped=tuple(job.id for job in skipped),
            seconds=time.perf_counter() - start,
        )

    def _run(self, turns: Sequence[Sequence[Job]]) -> None:
        """Decode the chunks that are left, save each as it comes, and put a run together after its last one."""
        jobs = [job for turn in turns for job in turn]
        left = {job.id: self._left(job) for job in jobs}
        self.bar.reset(sum(len(job.places(chunk)) for job in jobs for chunk in left[job.id]))
        for job in jobs:
            if not left[job.id]:
                self._assemble(job)
        if self.cluster is None:
            decoded = self._in_turns(turns, left)
        else:
            decoded = self.cluster.decode([(job, chunk) for job in jobs for chunk in left[job.id]])
        waiting = {run: len(chunks) for run, chunks in left.items()}
        for job, chunk, found in decoded:
            self.work.add(job, chunk, found)
            self._name(job.id)
            self.bar.update(len(job.places(chunk)))
            waiting[job.id] -= 1
            if not waiting[job.id]:
                self._assemble(job)

    def _in_turns(
        self, turns: Sequence[Sequence[Job]], left: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[Job, int, Chunk]]:
        """Decode the chunks that are left in this process, turn by turn."""
        for turn in turns:
            jobs = [job for job in turn if left[job.id]]
            self.models.keep(job.key for job in jobs)
            timed = any(job.setting["timed"] for job in jobs)
            with without_collections() if timed else nullcontext():
                for job in jobs if timed else ():
                    self._name(f"warm-up of {job.id}")
                    decode_chunk(self.models.get(job.key), job, job.places(0))
                for chunk in range(max((job.chunks for job in jobs), default=0)):
                    for job in rotated(jobs, chunk):
                        if chunk in left[job.id]:
                            self._name(job.id)
                            yield job, chunk, decode_chunk(self.models.get(job.key), job, job.places(chunk))

    def _name(self, run: str) -> None:
        self.bar.set_description(run.rpartition(".")[0])

    def _assemble(self, job: Job) -> None:
        date = datetime.now(UTC).isoformat(timespec="seconds")
        self.work.assemble(job, {**self.provenance, "date": date})

    def _left(self, job: Job) -> list[int]:
        """The chunks that are not done."""
        done = self.work.done(job)
        return [chunk for chunk in range(job.chunks) if chunk not in done]
