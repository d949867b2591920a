"""Finished chunks of unfinished runs, on disk: one file for each run, a JSON line a chunk.

An interruption can leave half a last line; it is ignored, and cut off before the next one is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from analysis.runs import write_run
from analysis.sweeps.jobs import Chunk, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work files beside the runs of `folder`."""

    folder: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A context in which no other process sweeps into this folder; ValueError where another process does."""
        place = self.folder / "work"
        place.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(place / ".lock", timeout=1):
                yield
        except Timeout as error:
            raise ValueError(
                f"another sweep is writing to {self.folder}: wait for it, or give another --runs"
            ) from error

    def done(self, job: Job) -> dict[int, dict[str, Any]]:
        """The finished chunks of a run, by number."""
        file = self._file(job)
        lines = file.read_bytes().split(b"\n") if file.is_file() else []
        return {chunk["chunk"]: chunk for line in lines if (chunk := _parsed(line, job))}

    def add(self, job: Job, number: int, chunk: Chunk) -> None:
        """Save a finished chunk for good."""
        line = {"size": job.chunk, "chunk": number, "rows": chunk}
        with self._file(job).open("ab+") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def assemble(self, job: Job, provenance: Mapping[str, Any]) -> None:
        """Put the run, all of whose chunks are there, into the store."""
        done = self.done(job)
        lines = [done[number] for number in range(job.chunks)]
        rows = pd.DataFrame([{**row, "turn": line["chunk"]} for line in lines for row in line["rows"]])
        if not (job.setting["timed"] and job.turns):
            rows = rows.drop(columns="turn")
        write_run(self.folder, {**job.setting, **provenance, **job.origin}, rows)
        self.clear(job)

    def clear(self, job: Job) -> None:
        """Remove the chunks of a run that is in the store."""
        self._file(job).unlink(missing_ok=True)

    def _file(self, job: Job) -> Path:
        return self.folder / "work" / f"{job.id}.jsonl"


def _parsed(line: bytes, job: Job) -> dict[str, Any] | None:
    """A chunk of this run as it is cut now; None for anything else, such as half a line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("size") == job.chunk else None
