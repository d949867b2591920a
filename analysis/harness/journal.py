"""The results of a run so far, by request, in a file that each result extends, so that the run can go on later."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Journal:
    """Results (JSON values) by the key of their request; with a `path` also in that file, one line each.

    A line that an interruption cut short is dropped, with everything after it.
    """

    def __init__(self, path: Path | None = None):
        self._path = path
        self._results: dict[str, Any] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            self._read()

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def __getitem__(self, key: str) -> Any:
        return self._results[key]

    def __len__(self) -> int:
        return len(self._results)

    def results(self) -> list[Any]:
        """All results, in the order in which they came."""
        return list(self._results.values())

    def add(self, key: str, result: Any) -> None:
        """Keep a result; it is in the file when this returns."""
        if self._path is not None:
            self._file.write(json.dumps([key, result], allow_nan=False).encode() + b"\n")
            self._file.flush()
        self._results[key] = result

    def remove(self) -> None:
        """Delete the file: the run is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is not None:
            self._file.close()

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0
        for line in self._file:
            try:
                key, result = json.loads(line)
            except (ValueError, TypeError):
                break
            if not line.endswith(b"\n"):
                break
            self._results[key] = result
            whole += len(line)
        self._file.truncate(whole)
