"""Finished chunks of unfinished runs, on disk: one file for each run and process, a JSON line a chunk.

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
from analysis.runs.files import INDEX, read_index
from analysis.runs.schema import is_id
from analysis.runs.tables import PROPOSALS
from analysis.sweeps.jobs import Chunk, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """This process among those that share a sweep."""

    number: int = 0
    count: int = 1

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Process:
        """This process, as `accelerate launch` or `torchrun` set it.

        Raises:
            ValueError: RANK and WORLD_SIZE are no such numbers.
        """
        number, count = environment.get("RANK", "0"), environment.get("WORLD_SIZE", "1")
        if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
            raise ValueError(f"RANK must be below WORLD_SIZE, got {number!r} and {count!r}")
        return cls(number=int(number), count=int(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work files beside the runs of `folder`."""

    folder: Path
    process: Process

    @property
    def place(self) -> Path:
        """The folder of the work files."""
        return self.folder / "work"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A context in which no other process has this number in a sweep into this folder.

        Raises:
            ValueError: another process has it.
        """
        self.place.mkdir(parents=True, exist_ok=True)
        try:
            with self._lock(self.process.number, seconds=1):
                yield
        except Timeout as error:
            raise ValueError(
                f"another sweep is writing to {self.folder}: wait for it, or give another --runs"
            ) from error

    def wait_for_others(self) -> None:
        """Wait until the other processes of this sweep that have begun have ended or are gone."""
        for number in range(self.process.count):
            if number != self.process.number:
                with self._lock(number):
                    pass

    def done(self, job: Job) -> dict[int, dict[str, Any]]:
        """The finished chunks of a run, by number, whichever process did them."""
        chunks: dict[int, dict[str, Any]] = {}
        for file in self._files(job):
            for line in file.read_bytes().splitlines():
                if chunk := _parsed(line, job):
                    chunks.setdefault(chunk["chunk"], chunk)
        return chunks

    def add(self, job: Job, number: int, chunk: Chunk) -> None:
        """Save a finished chunk for good."""
        line = {"size": job.chunk, "chunk": number, "rows": chunk.rows, "proposals": chunk.proposals}
        path = self.place / f"{job.id}.{self.process.number}.jsonl"
        with path.open("ab+") as file:
            _cut_torn_line(file)
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def assemble(self, job: Job, provenance: Mapping[str, Any]) -> None:
        """Put the run into the store if all its chunks are there, from any process."""
        with FileLock(self.place / ".assemble.lock"):
            done = self.done(job)
            if len(done) < job.chunks:
                return
            lines = [done[number] for number in range(job.chunks)]
            rows = pd.DataFrame([{**row, "turn": line["chunk"]} for line in lines for row in line["rows"]])
            if not job.setting["timed"]:
                rows = rows.drop(columns="turn")
            proposals = None
            if job.proposals:
                found = [proposal for line in lines for proposal in line["proposals"]]
                proposals = pd.DataFrame(found, columns=PROPOSALS.names)
            write_run(self.folder, {**job.setting, **provenance}, rows, proposals)
            self.clear(job)

    def clear(self, job: Job) -> None:
        """Remove the chunks of a run that is in the store."""
        for file in self._files(job):
            file.unlink(missing_ok=True)

    def stored(self) -> set[str]:
        """Ids of the runs in the store, as its index has them."""
        index = self.folder / INDEX
        found = read_index(index) if index.exists() else []
        return {entry["id"] for entry in found if isinstance(entry, dict) and is_id(entry.get("id"))}

    def _lock(self, number: int, seconds: float = -1) -> FileLock:
        return FileLock(self.place / f".process{number}.lock", timeout=seconds)

    def _files(self, job: Job) -> list[Path]:
        return sorted(self.place.glob(f"{job.id}.*.jsonl"))  # an id holds none of the characters of a pattern


def _parsed(line: bytes, job: Job) -> dict[str, Any] | None:
    """A chunk of this run as it is cut now; None for anything else, such as half a line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("size") != job.chunk:
        return None
    return None if job.proposals and found.get("proposals") is None else found


def _cut_torn_line(file: Any) -> None:
    size = file.seek(0, os.SEEK_END)
    if not size:
        return
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
