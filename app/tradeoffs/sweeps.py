"""Finds, among the plans of the repository, the sweep that makes the runs that a figure needs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLANS = ROOT / "analysis" / "plans"
Group = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The runs that a figure is drawn from: in words, and as a test whether a group of a plan makes them."""

    words: str
    made_by: Callable[[Group], bool]


def advice(need: Need, folder: Path = PLANS) -> str:
    """A sentence with the command that makes these runs."""
    plans = [path for path in sorted(folder.glob("*.toml")) if any(need.made_by(group) for group in _groups(path))]
    if not plans:
        return f"No plan in analysis/plans makes {need.words}; docs/runs.md says how to write one."
    plans.sort(key=lambda path: path.stem == "smoke")  # a quick look, not evidence
    return f"This makes {need.words}: python -m analysis sweep analysis/plans/{plans[0].name}"


def _groups(path: Path) -> Iterator[Group]:
    """The groups of a plan with its defaults filled in; none if the file is no plan."""
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    tables = plan.pop("group", [])
    yield from ({**plan, **table} for table in tables if isinstance(table, dict))


def _many(group: Group, key: str) -> list[Any]:
    value = group.get(key, [])
    return value if isinstance(value, list) else [value]


def has(key: str, *values: Any) -> Callable[[Group], bool]:
    """A test whether a group has `key`, with one of `values` if any are given."""
    return lambda group: any(not values or value in values for value in _many(group, key))


def at_least(key: str, count: int) -> Callable[[Group], bool]:
    """A test whether a group has at least so many values of `key`."""
    return lambda group: len(_many(group, key)) >= count


def both(*tests: Callable[[Group], bool]) -> Callable[[Group], bool]:
    """A test whether a group passes all these tests."""
    return lambda group: all(test(group) for test in tests)
