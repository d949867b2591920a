"""The runs in files of the server: real ones that come with the app, and those that visitors save for a link.

A visitor's run has a name that nobody can guess, until it expires; there are none unless the server was started with
`--keep-shared FOLDER`. The file name is the hash of that name, so a visitor's input is never a path, and the folder
does not give the names away.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from app.runs.run import MAX_BYTES, Run, RunFileError, read, to_json

REPLAYS = Path(__file__).parents[2] / "assets" / "replays"
DAYS = 7
MOST_DAYS = 365
MOST_BYTES = 100_000_000
_SECONDS_A_DAY = 86_400
_ENDING = ".run.json"
_log = logging.getLogger(__name__)


@cache
def shipped(folder: Path = REPLAYS) -> dict[str, Run]:
    """The runs of a folder by file name without its ending, in the order of the names; broken files are left out."""
    runs = {}
    for path in sorted(folder.glob("*.json")):
        try:
            runs[path.stem] = read(path.read_bytes())
        except (OSError, RunFileError) as error:
            _log.warning("%s is not offered. %s", path.name, error)
    return runs


class SharedRuns:
    """A folder of saved runs, each for so many `days`, together at most `most_bytes`; `now` is the time in seconds."""

    def __init__(
        self, folder: Path, days: int = DAYS, most_bytes: int = MOST_BYTES, now: Callable[[], float] = time.time
    ) -> None:
        self.days = days
        self._folder = folder
        self._most_bytes = most_bytes
        self._now = now
        self._names: dict[str, str] = {}  # by the id of the run
        self._lock = threading.Lock()

    def keep(self, run: Run) -> str:
        """Save a run, once, and return its name; ValueError if it is too large, or the folder full or not writable."""
        text = to_json(run).encode()
        if len(text) > MAX_BYTES:
            raise ValueError(f"This run has {len(text):,} bytes; at most {MAX_BYTES:,} can be saved.")
        with self._lock:
            name = self._names.get(run.id)
            if name is not None and self._path(name).exists():
                return name
            used = self._forget_expired()
            if used + len(text) > self._most_bytes:
                raise ValueError("The server has no room for another run now. Save it as a file in Step through.")
            name = secrets.token_urlsafe(16)
            self._write(self._path(name), text)
            self._names[run.id] = name
        return name

    def find(self, name: str) -> Run | None:
        """The run of this name; None where there is none, or none any more."""
        path = self._path(name)
        try:
            return None if self._expired(path) else read(path.read_bytes())
        except (OSError, RunFileError):
            return None

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode(errors='replace')).hexdigest()}{_ENDING}"

    def _expired(self, path: Path) -> bool:
        return self._now() - path.stat().st_mtime > self.days * _SECONDS_A_DAY

    def _forget_expired(self) -> int:
        """Delete expired runs; returns the size of the others in bytes."""
        used = 0
        for path in self._folder.glob("*.run.*"):  # half-written ones too
            if self._expired(path):
                path.unlink(missing_ok=True)
            else:
                used += path.stat().st_size
        self._names = {run: name for run, name in self._names.items() if self._path(name).exists()}
        return used

    def _write(self, path: Path, text: bytes) -> None:
        half = path.with_suffix(".part")
        try:
            half.touch(mode=0o600)
            half.write_bytes(text)
            os.utime(half, (self._now(), self._now()))
            half.replace(path)
        except OSError as error:
            half.unlink(missing_ok=True)
            raise ValueError(f"The server could not save the run: {error.strerror}.") from None
