"""Every run of a folder with its rows, checked against docs/runs.md. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.runs.files import INDEX, proposals_path, read_index, rows_path
from analysis.runs.schema import (
    DEFAULT_SETTINGS,
    MODEL_FIELDS,
    PROVENANCE,
    SETTING,
    check_entry,
    is_id,
    is_judged,
)
from analysis.runs.tables import check_proposals, check_rows

_AGGREGATES = (
    *("n", "correct", "accuracy", "tokens", "passes", "seconds", "tokens_per_forward", "tokens_per_second"),
    "source",
)
_NESTED = {"model": MODEL_FIELDS, "draft": MODEL_FIELDS, "settings": tuple(DEFAULT_SETTINGS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStore:
    """The valid runs, in the order of their ids; `problems` has a sentence for each run that is not valid.

    `frames` and `kept` hold the rows and the mask proposals by id; use `rows` and `proposals`.
    """

    entries: Sequence[dict[str, Any]] = ()
    problems: Sequence[str] = ()
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    kept: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def rows(self, run: str) -> pd.DataFrame:
        """The rows of the run with this id, one a problem.

        Raises:
            ValueError: there is no such run.
        """
        if run not in self.frames:
            raise ValueError(f"there is no run {run!r}: the store has {len(self.entries)} runs")
        return self.frames[run].copy(deep=False)

    def proposals(self, run: str) -> pd.DataFrame | None:
        """The mask proposals of the run with this id; None where none were kept.

        Raises:
            ValueError: there is no such run.
        """
        self.rows(run)
        return self.kept[run].copy(deep=False) if run in self.kept else None

    def table(self) -> pd.DataFrame:
        """One row per run: setting and provenance, nested fields with dots, and the sums over its rows.

        Lists become tuples. A missing number is NaN, such as the threshold of one-token mode or the accuracy of a run
        that nobody judged.
        """
        return pd.DataFrame(
            [
                {**_flattened(entry), **_aggregates(self.frames[entry["id"]], judged=is_judged(entry))}
                for entry in self.entries
            ],
            columns=list(columns()),
        )


def columns() -> tuple[str, ...]:
    """The columns of a table of runs."""
    fields: list[str] = ["id"]
    for name in (*SETTING, *PROVENANCE):
        fields += [f"{name}.{part}" for part in _NESTED[name]] if name in _NESTED else [name]
    return (*fields, *_AGGREGATES)


def _flattened(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the index as columns of a table."""
    flat: dict[str, Any] = {}
    for name, value in entry.items():
        if name in _NESTED:
            whole = {**DEFAULT_SETTINGS, **value} if name == "settings" else value or {}
            flat |= {f"{name}.{part}": whole.get(part) for part in _NESTED[name]}
        else:
            flat[name] = tuple(value) if isinstance(value, list) else value
    return flat


def read_runs(folder: Path) -> RunStore:
    """The runs of a folder; none if it is empty or does not exist.

    The content of the folder never raises an error: a damaged run is left out, and `problems` says why.
    """
    index = folder / INDEX
    if not index.is_file():
        stray = sorted(folder.glob("*.parquet"))
        return RunStore(problems=[f"{index} is missing, so that {stray[0].name} cannot be read"] if stray else ())
    try:
        listed = read_index(index)
    except ValueError as error:
        return RunStore(problems=[str(error)])
    times = Counter(entry.get("id") for entry in listed if isinstance(entry, dict) and is_id(entry.get("id")))
    problems: list[str] = []
    entries: list[dict[str, Any]] = []
    frames: dict[str, pd.DataFrame] = {}
    kept: dict[str, pd.DataFrame] = {}
    for number, entry in enumerate(listed):
        try:
            _check_listed(entry, f"{index}: runs[{number}]", times)
            rows, proposals = _read_files(folder, entry)
        except ValueError as error:
            problems.append(str(error))
            continue
        entries.append(entry)
        frames[entry["id"]] = rows
        if proposals is not None:
            kept[entry["id"]] = proposals
    return RunStore(entries=sorted(entries, key=lambda entry: entry["id"]), problems=problems, frames=frames, kept=kept)


def open_runs(folder: Path) -> RunStore:
    """The runs in the index of a folder that is known to be valid: each file is read on first use.

    Raises:
        ValueError: the index is damaged; or, on first use, the file of a run is.
    """
    entries = sorted(read_index(folder / INDEX), key=lambda entry: str(entry["id"]))
    listed = {entry["id"]: entry for entry in entries}
    kept = {run for run in listed if proposals_path(folder, run).is_file()}
    files = cache(lambda run: _read_files(folder, listed[run]))
    return RunStore(
        entries=entries,
        frames=_OnDemand(listed, lambda run: files(run)[0]),
        kept=_OnDemand(kept, lambda run: files(run)[1]),
    )


class _OnDemand(Mapping[str, pd.DataFrame]):
    """The frames of these runs by id, each read when it is asked for."""

    def __init__(self, runs: Collection[str], read: Callable[[str], Any]) -> None:
        self._runs = runs
        self._read = read

    def __getitem__(self, run: str) -> pd.DataFrame:
        if run not in self._runs:
            raise KeyError(run)
        return self._read(run)

    def __contains__(self, run: object) -> bool:
        return run in self._runs

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)


def _check_listed(entry: Any, where: str, times: Mapping[Any, int]) -> None:
    """Raise ValueError unless this is an entry and no other has its id; `where` begins the sentence."""
    if not isinstance(entry, dict):
        raise ValueError(f"{where} must be an object, got {type(entry).__name__}")
    check_entry(entry, f"{where}.")
    if times[entry["id"]] > 1:
        raise ValueError(f"{where}.id is that of another run as well: {entry['id']}")


def _read_files(folder: Path, entry: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    path = rows_path(folder, entry["id"])
    if not path.is_file():
        raise ValueError(f"{path} is missing, although {INDEX} lists the run")
    try:
        rows = check_rows(_read_table(path), entry)
        path = proposals_path(folder, entry["id"])
        return rows, check_proposals(_read_table(path), rows) if path.is_file() else None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_table(path: Path) -> pa.Table:
    try:
        return pq.ParquetFile(path).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"the file is damaged or no Parquet: {error}") from error


def _aggregates(rows: pd.DataFrame, *, judged: bool) -> dict[str, Any]:
    n, correct = len(rows), int(rows["correct"].sum()) if judged else None
    tokens, passes, seconds = int(rows["tokens"].sum()), int(rows["passes"].sum()), float(rows["seconds"].sum())
    return {
        "n": n,
        "correct": correct,
        "accuracy": None if correct is None else correct / n,
        "tokens": tokens,
        "passes": passes,
        "seconds": seconds,
        "tokens_per_forward": tokens / passes if passes else None,
        "tokens_per_second": tokens / seconds if seconds else None,
        "source": "measured",
    }
