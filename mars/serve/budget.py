"""The thresholds that keep within a budget of accuracy, by the cached runs of the same weights.

Runs of sliding windows, or of relaxed verification, at several thresholds are compared with AR's text on the same
problems, from the highest threshold down, until one may lose more than the budget; the thresholds before it are
allowed. "May lose" is the upper end of a one-sided 95 % interval of the paired difference (Agresti and Min, Statistics
in Medicine 24, 2005). A fixed order that ends at the first failure needs no further correction.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mars import decoders
from mars.checkpoint.sources import locate, weights_digest

RUNS = Path("assets/runs")
ONE_SIDED = 1.645
_SAME = ("batch_size", "tasks", "problems", "seed", "dtype", "device")


class Allowed(NamedTuple):
    """The thresholds, descending, that keep within a budget: of sliding windows, or else of relaxed verification."""

    thresholds: tuple[float, ...] = ()
    relaxed: bool = False


def allowed(points: float, source: str, block_size: int, runs: Path = RUNS) -> Allowed:
    """What a budget of so many percentage points allows: windows only where relaxed verification was not measured.

    Raises:
        ValueError: neither is allowed, or the runs cannot be read; one sentence, that of sliding windows.
    """
    try:
        return Allowed(within(points, source, block_size, runs, decoders.RELAXED), relaxed=True)
    except ValueError:
        return Allowed(within(points, source, block_size, runs))


def within(
    points: float, source: str, block_size: int, runs: Path = RUNS, decoder: str = decoders.USUAL
) -> tuple[float, ...]:
    """The thresholds, descending, whose loss against AR's text is surely at most `points`, in percentage points.

    Raises:
        ValueError: one sentence: there are no such runs of these weights with this block size, they cannot be read, or
            no threshold is within the budget.
    """
    if not (math.isfinite(points) and 0 < points <= 100):
        raise ValueError(f"--accuracy-budget must be above 0 and at most 100 points, got {points:g}")
    entries = _entries(runs)
    weights = weights_digest(sorted(locate(source)[0].glob("*.safetensors")))
    found = _comparable(_plain(entries, weights, block_size, decoder))
    if found is None:
        raise ValueError(
            f"{runs} has no runs of {source} by {decoder} with blocks of {block_size} tokens at several thresholds and "
            "without one, so that no accuracy budget can be kept: measure them with python -m analysis sweep, or "
            "use --policy exact"
        )
    right = {threshold: _right(runs / f"{run}.parquet") for threshold, run in found.items()}
    base = right.pop(None)
    thresholds: list[float] = []
    for threshold in sorted((key for key in right if key is not None), reverse=True):
        loss = loss_at_most(base, right[threshold])
        if loss > points:
            break
        thresholds.append(threshold)
    if not thresholds:
        raise ValueError(
            f"the highest threshold of the cached runs, {max(key for key in right if key is not None)}, may lose "
            f"{loss:.2f} points: --accuracy-budget must be at least that, got {points:g}"
        )
    return tuple(thresholds)


def loss_at_most(base: Mapping[Any, bool], other: Mapping[Any, bool]) -> float:
    """The upper end of the interval of how many points `other` has fewer right of the same problems.

    Raises:
        ValueError: the problems are not the same.
    """
    if base.keys() != other.keys():
        raise ValueError("the cached runs at these thresholds are on other problems than that in one-token mode")
    count = len(base) + 2
    lost = 0.5 + sum(base[key] and not other[key] for key in base)
    gained = 0.5 + sum(other[key] and not base[key] for key in base)
    error = math.sqrt(lost + gained - (lost - gained) ** 2 / count) / count
    return 100 * ((lost - gained) / count + ONE_SIDED * error)


def _entries(runs: Path) -> list[dict[str, Any]]:
    try:
        listed = json.loads((runs / "index.json").read_text(encoding="utf-8"))["runs"]
        return [entry for entry in listed if isinstance(entry, dict)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the cached runs in {runs} cannot be read ({type(error).__name__})") from error


def _comparable(entries: Iterable[dict[str, Any]]) -> dict[float | None, str] | None:
    """Run ids by threshold: of runs alike in all else, the set with one without and most thresholds and problems."""
    sets: dict[str, dict[float | None, str]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for entry in entries:
        alike = json.dumps([*(entry[name] for name in _SAME), entry["settings"].get("layout")])
        sets.setdefault(alike, {})[entry["settings"]["threshold"]] = entry["id"]
        sizes[alike] = (len(sets[alike]), entry["problems"] * len(entry["tasks"]))
    whole = [alike for alike, found in sets.items() if None in found and len(found) > 1]
    return sets[max(whole, key=sizes.__getitem__)] if whole else None


def _plain(entries: list[dict[str, Any]], weights: str, block_size: int, decoder: str) -> Iterator[dict[str, Any]]:
    """Judged runs of these weights by this decoder, with blocks like those of the server."""
    for entry in entries:
        settings = entry.get("settings", {})
        if (
            entry.get("decoder") == decoder
            and entry.get("model", {}).get("fingerprint") == weights
            and entry.get("judged", True)
            and settings.get("block_size") == block_size
            and settings.get("score") == "probability"
            and not settings.get("extra_proposal")
            and not settings.get("temperature")
        ):
            yield entry


def _right(file: Path) -> dict[Any, bool]:
    """By problem, whether a run has it right."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ValueError("the cached runs are read with pyarrow: pip install pyarrow") from error
    try:
        columns = parquet.ParquetFile(file).read(["task", "number", "correct"], use_threads=False).to_pydict()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"the cached run {file} cannot be read ({type(error).__name__})") from error
    return dict(zip(zip(columns["task"], columns["number"], strict=True), columns["correct"], strict=True))
