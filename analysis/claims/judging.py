"""The judge: a claim is a table of comparisons, each comparison has a verdict, and the worst of them is the claim's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from math import ceil, floor, inf, log10

from analysis.claims.evidence import Evidence, Published, Run
from analysis.recipes import RECIPES
from analysis.stats.intervals import CONFIDENCE, Interval

MARGIN = 1.0
"""Points of accuracy below which a loss does not matter in practice."""


class ClaimVerdict(Enum):
    """The possible verdicts, the worst first."""

    FAILS = "does not hold"
    OPEN = "undecided at this n"
    MISSING = "not measured"
    HOLDS = "holds"


def worst(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """The worst of several verdicts; `MISSING` if there are none."""
    found = set(verdicts)
    return next((verdict for verdict in ClaimVerdict if verdict in found), ClaimVerdict.MISSING)


def verdict_of(*, holds: bool, fails: bool) -> ClaimVerdict:
    """The verdict by two criteria; what meets both fails."""
    return ClaimVerdict.FAILS if fails else ClaimVerdict.HOLDS if holds else ClaimVerdict.OPEN


def faster(gain: Interval) -> ClaimVerdict:
    """The verdict on a speed-up: it holds above 1 and fails below 1."""
    return verdict_of(holds=gain.surely_above(1), fails=gain.surely_below(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One row of a claim's table: the things compared and the results, by column. A verdict of None is not judged."""

    compared: Mapping[str, str]
    measured: Mapping[str, str]
    verdict: ClaimVerdict | None = None

    def __str__(self) -> str:
        compared = ", ".join(f"{column} {cell}".strip() for column, cell in self.compared.items())
        return f"{compared}: {', '.join(f'{column} {cell}' for column, cell in self.measured.items())}"


@dataclass(slots=True, kw_only=True)
class Finding:
    """The comparisons behind a verdict. `headline` is the cell of the overview, `why` at most two sentences.

    `runs` are the runs behind it; where benchmark files are judged, `commands`, `n` and `where` stand in for them.
    `without` names the runs that it takes to compare anything, `missing` those that would complete the comparisons.
    `timed` are the runs that were compared on the clock, `notes` says what their turns tell of the machine.
    """

    without: str = ""
    missing: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    headline: str = ""
    runs: list[Run] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    n: list[int] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    timed: list[tuple[Run, Run]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        compared: Mapping[str, str],
        measured: Mapping[str, str],
        verdict: ClaimVerdict | None = None,
        runs: Iterable[Run] = (),
    ) -> None:
        """Add a comparison, and the runs behind it."""
        self.comparisons.append(Comparison(compared=compared, measured=measured, verdict=verdict))
        self.runs += runs

    @property
    def needs(self) -> str:
        """The runs that are missing, if any."""
        return self.missing if self.comparisons else self.without

    @property
    def judged(self) -> list[Comparison]:
        """The comparisons that have a verdict."""
        return [comparison for comparison in self.comparisons if comparison.verdict is not None]

    @property
    def verdict(self) -> ClaimVerdict:
        """The worst verdict of its comparisons; something missing counts as a comparison."""
        missing = [ClaimVerdict.MISSING] if self.needs else []
        return worst([*(each.verdict for each in self.comparisons if each.verdict is not None), *missing])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of the paper, or (`ours`) of this project. `rule` states in words how `find` reaches its verdict.

    `recipes` (analysis/recipes.py) make the runs of the tiny models that it is judged on, `on_real` those of the real
    model; where there are none yet, `first` says what has to be made before.
    """

    number: int
    title: str
    claimed: Callable[[Published], str]
    rule: str
    find: Callable[[Evidence], Finding]
    recipes: tuple[str, ...]
    on_real: tuple[str, ...] = ()
    first: str = ""
    ours: bool = False

    def to_measure(self) -> str:
        """The commands that measure it on the real model, or what is missing, in Markdown."""
        first = " ".join(self.first.split())
        return ", ".join(f"`{RECIPES[name].line()}`" for name in self.on_real) or f"first, {first}"


def together(comparisons: int) -> float:
    """The confidence that each of so many intervals needs for all to be right in 95 % of cases (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / max(1, comparisons)


def among(count: int, of: int, what: str) -> str:
    """How many of several comparisons do this, behind a headline; of a single one the verdict says it."""
    return f"; {count} of {of} comparisons {what}" if of > 1 else ""


def listed(names: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _words(interval: Interval, form: str, unit: str = "", factor: float = 1) -> str:
    value, low, high = (_signed(factor * end, form) for end in (interval.value, interval.low, interval.high))
    return f"{value}{unit} [{low}, {high}]"


def _signed(value: float, form: str) -> str:
    """A number with a proper minus, and no sign before one that rounds to 0."""
    text = f"{value:{form}}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", "−")


percent = partial(_words, form=".1f", unit=" %", factor=100)
"""A share: 95.3 % [93.3, 96.8]."""
points = partial(_words, form="+.1f")
"""A difference in points: −0.3 [−1.2, +0.6]."""
lost = partial(_words, form=".1f")
"""A loss in points: 0.3 [−0.6, 1.2]."""
times = partial(_words, form=".2f", unit="×")
"""A factor: 1.27× [1.20, 1.31]."""
number = partial(_words, form=".2f")
"""Tokens per forward: 2.75 [2.70, 2.80]."""
rate = partial(_words, form=",.0f")
"""Tokens per second: 2,015 [1,980, 2,050]."""


def problems_needed(n: int, interval: Interval, *, above: float = inf, below: float = -inf) -> float:
    """How many problems would move the whole interval above `above` or below `below`, if its value stays the same.

    The width of an interval shrinks with the root of n. Infinite where the value is on the wrong side of both.
    """
    ways = [
        (interval.value - interval.low, interval.value - above),
        (interval.high - interval.value, below - interval.value),
    ]
    return min((n * (width / room) ** 2 for width, room in ways if room > 0), default=inf)


def problems_needed_between(n: int, interval: Interval, limit: float) -> float:
    """How many problems would move the interval within ±limit, or the whole of it beyond one of them."""
    inside = [problems_needed(n, interval, above=-limit), problems_needed(n, interval, below=limit)]
    return min(max(inside), problems_needed(n, interval, above=limit), problems_needed(n, interval, below=-limit))


def about(problems: float) -> str:
    """A number of problems with two digits, rounded up: 13,000."""
    if problems == inf:
        return "no number"
    step = 10 ** max(0, floor(log10(max(problems, 1))) - 1)
    return f"{ceil(problems / step) * step:,}"
