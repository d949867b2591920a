"""The runs of a folder, read and measured once a process, or read from its tables (`python -m analysis measured`)."""

from collections.abc import Callable, Hashable
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import pandas as pd

from analysis.figures import POOLED, measure
from analysis.measured import read_measured
from analysis.runs import RunStore, open_runs, read_runs
from app.models.sentences import error_sentence

_T = TypeVar("_T")
RUNS = Path(__file__).parents[2] / "assets" / "runs"


class RunCache:
    """Reads and measures once; who asks at the same time waits for the same work."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or RUNS
        self._lock = RLock()
        self._results: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The result of `make`, called only when the key is new."""
        with self._lock:
            if key not in self._results:
                self._results[key] = make()
            result: _T = self._results[key]
            return result

    @property
    def runs(self) -> RunStore:
        return self.once("read", self._read)[0]

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence, without paths, for each run or table that cannot be used."""
        return self.once("read", self._read)[1]

    def table(self, task: str = POOLED) -> pd.DataFrame:
        """The table of `analysis.figures.measure` for one family or all."""
        tables = self.once("read", self._read)[2]
        return self.once(("table", task), lambda: tables(task))

    def _read(self) -> tuple[RunStore, tuple[str, ...], Callable[[str], pd.DataFrame]]:
        problems, tables = list[str](), None
        try:
            tables = read_measured(self.folder)
        except ValueError as error:
            problems.append(str(error))
        runs = read_runs(self.folder) if tables is None else open_runs(self.folder)
        told = tuple(map(error_sentence, [*problems, *runs.problems]))
        return runs, told, tables or (lambda task: measure(runs, families=(task,)))
