"""Every run of a folder with its rows, checked against docs/runs.md. No torch here."""

from __future__ import annotations

from collections import Counter, UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.runs.files import read_entries, read_rows, study_files
from analysis.runs.schema import DEFAULT_SETTINGS, MODEL_FIELDS, PROVENANCE, SETTING, check_entry, is_id, is_judged
from analysis.runs.tables import check_rows

_AGGREGATES = "n correct accuracy tokens passes seconds tokens_per_forward tokens_per_second".split()
_NESTED = {"model": MODEL_FIELDS, "draft": MODEL_FIELDS, "settings": tuple(DEFAULT_SETTINGS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStore:
    """The valid runs, in the order of their ids; `problems` has a sentence for each run that is not valid.

    `frames` holds the rows by id; use `rows`.
    """

    entries: Sequence[dict[str, Any]] = ()
    problems: Sequence[str] = ()
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def rows(self, run: str) -> pd.DataFrame:
        """The rows of the run with this id, one a problem; ValueError where there is no such run."""
        if run not in self.frames:
            raise ValueError(f"there is no run {run!r}: the store has {len(self.entries)} runs")
        return self.frames[run].copy(deep=False)

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


def read_runs(folder: str | Path) -> RunStore:
    """The runs of a folder; none if it is empty or does not exist.

    The content of the folder never raises an error: a damaged study or run is left out, and `problems` says why.
    """
    listed: list[tuple[Path, int, Any]] = []
    problems: list[str] = []
    if (before := (folder := Path(folder)) / "index.json").is_file():
        problems.append(f"{before} is of an earlier version, which kept a file for each run: measure them again")
    for path in study_files(folder):
        try:
            listed += [(path, number, entry) for number, entry in enumerate(read_entries(path))]
        except ValueError as error:
            problems.append(str(error))
    ids = (entry.get("id") for _, _, entry in listed if isinstance(entry, dict))
    times = Counter(run for run in ids if is_id(run))
    rows = cache(read_rows)
    entries: list[dict[str, Any]] = []
    frames: dict[str, pd.DataFrame] = {}
    for path, number, entry in listed:
        try:
            _check_listed(entry, f"{path}: runs[{number}]", times)
            run = entry["id"]
            frame = _rows_of(path, entry, rows)
        except ValueError as error:
            problems.append(str(error))
            continue
        entries.append(entry)
        frames[run] = frame
    problems = list(dict.fromkeys(problems))  # a damaged study is one, however many runs it has
    return RunStore(entries=sorted(entries, key=lambda entry: entry["id"]), problems=problems, frames=frames)


def open_runs(folder: Path) -> RunStore:
    """The runs of a folder that is known to be valid: the rows of a study are read on first use.

    ValueError where a study is damaged, or, on first use, the rows of a run are.
    """
    found = {entry["id"]: (path, entry) for path in study_files(folder) for entry in read_entries(path)}
    rows = cache(read_rows)
    return RunStore(
        entries=[found[run][1] for run in sorted(found)],
        frames=_OnDemand({run: partial(_rows_of, path, entry, rows) for run, (path, entry) in found.items()}),
    )


class _OnDemand(UserDict[str, Any]):
    """The frames of runs by id, each made when it is asked for."""

    def __getitem__(self, run: str) -> Any:
        return self.data[run]()


def _check_listed(entry: Any, where: str, times: Mapping[Any, int]) -> None:
    """Raise ValueError unless this is an entry and no other has its id; `where` begins the sentence."""
    if not isinstance(entry, dict):
        raise ValueError(f"{where} must be an object, got {type(entry).__name__}")
    check_entry(entry, f"{where}.")
    if times[entry["id"]] > 1:
        raise ValueError(f"{where}.id is that of another run as well: {entry['id']}")


def _rows_of(path: Path, entry: Mapping[str, Any], rows: Callable[[Path], Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    found = rows(path)
    if entry["id"] not in found:
        raise ValueError(f"{path}: run {entry['id']} has no rows")
    try:
        return check_rows(found[entry["id"]], entry)
    except ValueError as error:
        raise ValueError(f"{path}: run {entry['id']}: {error}") from error


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
    }
