"""What was found of a claim: a verdict by a rule that was declared, the runs behind it, and tables of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from analysis.claims.book import Book, Run
from analysis.claims.published import Published
from analysis.stats.intervals import CONFIDENCE, Interval

MARGIN = 1.0
"""Points of accuracy that may be lost before a setting is called worse in practice."""


class Verdict(Enum):
    """What can be said of a claim."""

    FAILS = "does not hold"
    OPEN = "can't be told at this n"
    HOLDS = "holds"
    MISSING = "not measured"

    @classmethod
    def of(cls, *, holds: bool, fails: bool) -> Verdict:
        """That of one comparison; what fails does not hold, whatever else is true of it."""
        return cls.FAILS if fails else cls.HOLDS if holds else cls.OPEN

    @classmethod
    def of_all(cls, verdicts: Iterable[Verdict]) -> Verdict:
        """The worst of what was compared; nothing compared is not measured."""
        found = set(verdicts)
        return next(
            (verdict for verdict in (cls.FAILS, cls.OPEN, cls.MISSING, cls.HOLDS) if verdict in found), cls.MISSING
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Numbers behind a verdict, as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Why = list[str | Table]
"""What explains a verdict: sentences, and the numbers they rest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`measured` is what the table of all claims shows: a few clauses with intervals. `runs` are those behind it.

    `why` looks for the reasons where a claim does not hold or can't be told.
    """

    verdict: Verdict
    measured: Sequence[str] = ()
    runs: Sequence[Run] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    why: Sequence[str | Table] = ()
    commands: Sequence[str] = ()
    scale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that claims look at: runs, the paper's tables, and the files that `analysis bench --json` wrote, by name."""

    book: Book
    published: Published
    benches: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of the paper, or (`ours`) of this project. `rule` says in words how `find` comes to its verdict."""

    number: int
    title: str
    claimed: Callable[[Published], str]
    rule: str
    find: Callable[[Evidence], Finding]
    ours: bool = False


def missing(what: str) -> Finding:
    """Nothing to judge by; `what` says which runs it would take."""
    return Finding(verdict=Verdict.MISSING, measured=[f"needs {what}"])


def together(comparisons: int) -> float:
    """The confidence of each of so many intervals that makes them right together in 95 % (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / max(1, comparisons)


def percent(interval: Interval) -> str:
    """A share: 95.3 % [93.3, 96.8]."""
    return _words(interval.scaled(100), ".1f", " %")


def points(interval: Interval) -> str:
    """A difference of accuracy in points: −0.3 [−1.2, +0.6]."""
    return _words(interval, "+.1f", "")


def lost(interval: Interval) -> str:
    """A loss of accuracy in points: 0.3 [−0.6, 1.2]."""
    return _words(interval, ".1f", "")


def times(interval: Interval) -> str:
    """A factor: 1.27× [1.20, 1.31]."""
    return _words(interval, ".2f", "×")


def number(interval: Interval) -> str:
    """Tokens per forward: 2.75 [2.70, 2.80]."""
    return _words(interval, ".2f", "")


def rate(interval: Interval) -> str:
    """Tokens per second: 2,015 [1,980, 2,050]."""
    return _words(interval, ",.0f", "")


def _words(interval: Interval, form: str, unit: str) -> str:
    value, low, high = (signed(end, form) for end in (interval.value, interval.low, interval.high))
    return f"{value}{unit} [{low}, {high}]"


def signed(value: float, form: str) -> str:
    """Without a sign before what is rounded to 0, and with the sign for minus."""
    text = f"{value:{form}}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", "−")
