"""The runs of a folder, read and measured once a process, or read from its tables (`python -m analysis measured`)."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import pandas as pd

from analysis.figures import POOLED, measure
from analysis.measured import read_measured
from analysis.runs import RunStore, open_runs, read_runs
from app.models.sentences import error_sentence

RUNS = Path(__file__).parents[2] / "assets" / "runs"
MOST_REMEMBERED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The content of a folder. `problems` has a sentence, without paths, for each run or table that cannot be used."""

    runs: RunStore
    problems: tuple[str, ...]
    tables: Callable[[str], pd.DataFrame]
    _answers: dict[Hashable, Any] = field(default_factory=dict)

    def remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result of `make`, called only when the key is new."""
        if key not in self._answers:
            if len(self._answers) >= MOST_REMEMBERED:
                self._answers.clear()
            self._answers[key] = make()
        return self._answers[key]


class RunCache:
    """Reads and measures once; who asks at the same time waits for the same work."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or RUNS
        self._lock = RLock()
        self._store: Store | None = None

    def store(self) -> Store:
        """The runs."""
        with self._lock:
            if self._store is None:
                self._store = _read(self.folder)
            return self._store

    def table(self, task: str = POOLED) -> pd.DataFrame:
        """The table of `analysis.figures.measure` for one family or all."""
        with self._lock:
            store = self.store()
            table: pd.DataFrame = store.remembered(("table", task), lambda: store.tables(task))
            return table


def _read(folder: Path) -> Store:
    problems, tables = list[str](), None
    try:
        tables = read_measured(folder)
    except ValueError as error:
        problems.append(str(error))
    runs = read_runs(folder) if tables is None else open_runs(folder)
    return Store(
        runs=runs,
        problems=tuple(map(error_sentence, [*problems, *runs.problems])),
        tables=tables or (lambda task: measure(runs, families=(task,))),
    )
