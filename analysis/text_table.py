"""Tables for a terminal and in Markdown, whose first line is the heading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

_T = TypeVar("_T")
Lines = Sequence[Sequence[str]]
Columns = tuple[tuple[str, Callable[[_T], str]], ...]
"""Headings, each with what a line says below it."""


def table_of(items: Iterable[_T], columns: Columns[_T]) -> str:
    """The heading and a line for each item, as `aligned`."""
    return aligned([[heading for heading, _ in columns], *([cell(item) for _, cell in columns] for item in items)])


def signed(value: float, form: str) -> str:
    """A number with a proper minus, and no sign before one that rounds to 0."""
    text = f"{value:{form}}"
    return (text if any(digit in text for digit in "123456789") else text.lstrip("+-")).replace("-", "−")


def aligned(lines: Lines, *, numbers: bool = True) -> str:
    """Cells in columns: the first is left-aligned, the others right-aligned; without `numbers` all left-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if not numbers:
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines)


def markdown(lines: Lines, *, numbers: bool = False) -> str:
    """The same as Markdown; with `numbers` all columns but the first are right-aligned."""
    heading, *rows = lines
    ruler = ["---", *(["---:" if numbers else "---"] * (len(heading) - 1))]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in (heading, ruler, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)
