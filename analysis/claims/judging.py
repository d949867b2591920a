"""The judge: a claim is a table of comparisons, each comparison has a verdict, and the worst of them is the claim's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from analysis.claims.evidence import Evidence, Run
from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.text_table import signed

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
    """The comparisons behind a verdict. `headline` is the cell of the overview.

    `runs` are the runs behind it; where benchmark files are judged, `commands`, `n` and `where` stand in for them.
    `without` names the runs that it takes to compare anything, `missing` those that would complete the comparisons.
    """

    without: str = ""
    missing: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    headline: str = ""
    runs: list[Run] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    n: list[int] = field(default_factory=list)
    where: list[str] = field(default_factory=list)

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

    The studies that it rests on name its number (analysis/studies.py).
    """

    number: int
    title: str
    claimed: str
    rule: str
    find: Callable[[Evidence], Finding]
    ours: bool = False


CLAIMS: dict[int, Claim] = {}
"""Each claim by its number, once the modules of the rules are imported."""


def claim(
    number: int, title: str, *, claimed: str, rule: str, ours: bool = False
) -> Callable[[Callable[[Evidence], Finding]], Callable[[Evidence], Finding]]:
    """Make a claim of the function that judges it."""

    def register(find: Callable[[Evidence], Finding]) -> Callable[[Evidence], Finding]:
        words = {"claimed": " ".join(claimed.split()), "rule": " ".join(rule.split())}
        CLAIMS[number] = Claim(number=number, title=title, **words, find=find, ours=ours)
        return find

    return register


def together(comparisons: int) -> float:
    """The confidence that each of so many intervals needs for all to be right in 95 % of cases (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / max(1, comparisons)


def among(count: int, of: int, what: str) -> str:
    """How many of several comparisons do this, behind a headline; of a single one the verdict says it."""
    return f"; {count} of {of} comparisons {what}" if of > 1 else ""


def listed(names: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _words(interval: Interval, form: str, unit: str = "", factor: float = 1) -> str:
    value, low, high = (signed(factor * end, form) for end in (interval.value, interval.low, interval.high))
    return f"{value}{unit} [{low}, {high}]"


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
