"""The runs of a folder, read once in a process, and measured once for each requested family of problems.

If the folder has the tables of its runs (`python -m analysis measured`), nothing is measured, and the rows of a run
are read on first use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures import POOLED, measure
from analysis.measured import read_measured
from analysis.runs import RunStore, open_runs, read_runs
from app.models.sentences import error_sentence

RUNS = Path(__file__).parents[2] / "assets" / "runs"
POLL_SECONDS = 0.5
MOST_REMEMBERED = 256
Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The content of a folder. `problems` has a sentence, without paths, for each run or table that cannot be used.

    `tables` gives the measured table of a family, None if none are stored with the runs.
    """

    stamp: Stamp
    runs: RunStore
    problems: tuple[str, ...]
    tables: Callable[[str], pd.DataFrame] | None = None
    _answers: dict[Hashable, Any] = field(default_factory=dict)

    def remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result of `make`, called only when the key is new."""
        if key not in self._answers:
            if len(self._answers) >= MOST_REMEMBERED:
                self._answers.clear()
            self._answers[key] = make()
        return self._answers[key]


@dataclass(slots=True)
class _Work:
    """One reading of the folder, and the measured tables by family."""

    stamp: Stamp
    store: Future[Store]
    tables: dict[str, Future[pd.DataFrame]] = field(default_factory=dict)
    done: int = 0


class RunCache:
    """Reads and measures in one background thread; callers at the same time wait for the same work."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or RUNS
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tradeoffs")
        self._work: _Work | None = None

    def opened(self, tasks: Iterable[str] = (POOLED,)) -> Iterator[str]:
        """Start the missing work for these families and wait for it; yields its progress as a sentence now and then."""
        work = self._begun()
        while not _over(work.store):
            yield "Reading the runs …"
        for task in tasks:
            future = self._measured(work, task)
            while not _over(future):
                whole = len(work.store.result().runs.entries)
                of_family = "" if task == POOLED else f" on {task.replace('_', ' ')}"
                yield f"Measuring the runs{of_family}: {min(work.done, whole)} of {whole} …"

    def store(self) -> Store:
        """The runs; waits for them."""
        return self._begun().store.result()

    def table(self, task: str = POOLED) -> pd.DataFrame:
        """The table of `analysis.figures.measure` for one family or all; waits for it."""
        return self._measured(self._begun(), task).result()

    def stale(self) -> bool:
        """Whether the folder has changed since it was read."""
        work = self._work
        return work is not None and work.stamp != stamp_of(self.folder)

    def reload(self) -> bool:
        """Forget everything if the folder has changed; returns whether it has."""
        changed = self.stale()
        if changed:
            with self._lock:
                self._work = None
        return changed

    def _begun(self) -> _Work:
        with self._lock:
            if self._work is None:
                stamp = stamp_of(self.folder)
                self._work = _Work(stamp, self._executor.submit(_read, self.folder, stamp))
            return self._work

    def _measured(self, work: _Work, task: str) -> Future[pd.DataFrame]:
        with self._lock:
            if task not in work.tables:
                work.tables[task] = self._executor.submit(_measure, work, task)
            return work.tables[task]


def stamp_of(folder: Path) -> Stamp:
    """A value that changes when a file of the folder does."""
    found = ((file.name, file.stat()) for file in folder.glob("*") if file.is_file())
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in found))


def _read(folder: Path, stamp: Stamp) -> Store:
    problems: list[str] = []
    tables = None
    try:
        tables = read_measured(folder)
    except ValueError as error:
        problems.append(str(error))
    runs = read_runs(folder) if tables is None else open_runs(folder)
    if tables is None:
        problems += runs.problems
    told = tuple(map(error_sentence, problems))
    return Store(stamp=stamp, runs=runs, problems=told, tables=tables)


def _measure(work: _Work, task: str) -> pd.DataFrame:
    store = work.store.result()
    if store.tables is not None:
        return store.tables(task)
    work.done = 0

    def progress(runs: int) -> None:
        work.done += runs

    return measure(store.runs, families=(task,), progress=progress)


def _over(future: Future[Any]) -> bool:
    """Wait a moment; returns whether the work is over, or raises its error."""
    try:
        future.result(POLL_SECONDS)
    except TimeoutError:
        if not future.done():
            return False
        raise
    return True
