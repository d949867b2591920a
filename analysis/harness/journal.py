"""The results of a run so far, by request, in a file that each result extends, so that the run can go on later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Journal:
    """Results (JSON values) by the key of their request; with a `path` also in that file, one line each.

    A line that an interruption cut short is dropped, with everything after it.
    """

    def __init__(self, path: Path | None = None):
        self._path = path
        self.results: dict[str, Any] = {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else ():
            try:
                key, result = json.loads(line)
            except (ValueError, TypeError):
                break
            if not line.endswith(b"\n"):
                break
            self.results[key] = result
            whole += len(line)
        with path.open("ab") as file:
            file.truncate(whole)

    def add(self, key: str, result: Any) -> None:
        """Keep a result; it is in the file when this returns."""
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps([key, result], allow_nan=False).encode() + b"\n")
        self.results[key] = result

    def remove(self) -> None:
        """Delete the file: the run is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
