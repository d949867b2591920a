"""The chunks of a sweep as tasks of a Ray cluster: Ray chooses where each runs, and repeats those whose machine dies.

A worker keeps the models of the run that it decoded last. One process saves the results here, so that the run store,
and the files from which an interrupted sweep goes on, are the same as without a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from analysis.sweeps.jobs import Chunk, Job, decode_chunk
from analysis.sweeps.models import Models
from mars.cluster import absolute, connect, gpus_for

TRIES = 5  # of a chunk whose machine died
_MODELS = Models()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that is connected; a task takes `cpus`, and a GPU where there are any."""

    cpus: int

    @classmethod
    def at(cls, address: str) -> Cluster:
        """Connect; a task takes as many CPUs as this process has threads.

        ValueError where Ray is not installed, or there is no such cluster.
        """
        connect(address)
        return cls(cpus=torch.get_num_threads())

    @property
    def workers(self) -> int:
        """The number of tasks that can run at once."""
        import ray

        return max(1, int(ray.cluster_resources().get("CPU", 1)) // self.cpus)

    def decode(self, wanted: Iterable[tuple[Job, int]]) -> Iterator[tuple[Job, int, Chunk]]:
        """Decode these chunks; yields each once, in the order in which they are done.

        ValueError as of `decode_chunk`, and where a chunk failed too often.
        """
        import ray

        tasks: dict[Any, tuple[Job, int]] = {}
        for job, number in wanted:
            task = ray.remote(
                num_cpus=self.cpus, num_gpus=gpus_for(job.key.device), max_retries=TRIES, scheduling_strategy="SPREAD"
            )(_decoded)
            tasks[task.remote(_anywhere(job), number, self.cpus)] = (job, number)
        while tasks:
            [done], _ = ray.wait(list(tasks), num_returns=1)
            try:
                found = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                raise ValueError(f"a chunk failed {TRIES + 1} times on the cluster: {type(error).__name__}") from error
            yield *tasks.pop(done), found


def _anywhere(job: Job) -> Job:
    """The job with absolute paths of its checkpoints."""
    sources: dict[str, Any] = {name: absolute(getattr(job.key, name)) for name in ("checkpoint", "draft", "base")}
    return replace(job, key=replace(job.key, **sources))


def _decoded(job: Job, number: int, threads: int) -> Chunk:
    """Decode a chunk in a worker."""
    torch.set_num_threads(threads)
    _MODELS.keep([job.key])
    return decode_chunk(_MODELS.get(job.key), job, job.places(number))
