"""Checks of values from somebody's JSON: each returns the value, or raises ValueError with what is allowed."""

from __future__ import annotations

import reprlib
from collections.abc import Collection
from typing import Any

from mars.text import printable


def shown(value: object) -> str:
    """A value in a sentence, shortened."""
    return printable(reprlib.repr(value))


def whole(value: object, name: str, lowest: int, highest: int) -> int:
    """A whole number from `lowest` to `highest`."""
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ValueError(f"{name} must be a whole number from {lowest} to {highest}, got {shown(value)}")
    return value


def number(value: object, name: str, lowest: float, highest: float) -> float:
    """A finite number from `lowest` to `highest`."""
    right = not isinstance(value, bool) and isinstance(value, int | float)
    if not right or not lowest <= value <= highest:  # type: ignore[operator]  # NaN is in no range
        raise ValueError(f"{name} must be a number from {lowest:g} to {highest:g}, got {shown(value)}")
    return float(value)  # type: ignore[arg-type]


def text(value: object, name: str, longest: int, shortest: int = 0) -> str:
    """A string of at most `longest` characters that can be written as UTF-8."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {shown(value)}")
    if not shortest <= len(value) <= longest:
        raise ValueError(f"{name} must have {shortest} to {longest} characters, got {len(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be valid Unicode, but holds half a surrogate pair") from None
    return value


def choice(value: object, name: str, choices: Collection[Any]) -> Any:
    """One of `choices`."""
    if not isinstance(value, str | bool | None) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, got {shown(value)}")
    return value


def items(value: object, name: str, most: int, fewest: int = 0) -> list[Any]:
    """A list of `fewest` to `most` entries."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {shown(value)}")
    if not fewest <= len(value) <= most:
        raise ValueError(f"{name} must have {fewest} to {most} entries, got {len(value)}")
    return value


def mapping(value: object, name: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object, got {shown(value)}")
    return value


def fields(value: object, name: str, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Any]:
    """An object with these fields and no others."""
    found = mapping(value, name)
    missing, unknown = sorted(set(required) - set(found)), sorted(set(found) - set(required) - set(optional))
    if missing:
        raise ValueError(f"{name} lacks {shown(missing)}")
    if unknown:
        raise ValueError(f"{name} has fields that a run does not have: {shown(unknown)}")
    return found
