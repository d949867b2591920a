"""Chooses the layout of exact decoding at a batch size: the one with most tokens a second in the passes so far.

Step times and acceptance are measured while text is written: wider windows gain more tokens and cost more time, and how
much more depends on the device and on the rows that share it. The choice changes the speed, never the text.
"""

from __future__ import annotations

import statistics
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from mars.decoding import costs
from mars.decoding.costs import size_of
from mars.decoding.trees import MOST_COLUMNS, MOST_DRAFTS, PRICE, Expectation
from mars.engine import Engine

Layout = Literal["none", "copy", "narrow", "linear", "tree", "lookup", "quadratic"]
# Those of a fixed number of columns or a fixed most, from the fewest to the most.
LAYOUTS: tuple[Layout, ...] = ("none", "narrow", "linear", "quadratic")
LINEAR: tuple[Layout, ...] = ("narrow", "linear")
# Those that leave the next pass no drafts, and those in which each row has a plan of its own.
MASKLESS: tuple[Layout, ...] = ("none", "copy")
TREES: tuple[Layout, ...] = ("tree", "lookup", "copy")
NARROW = 3  # the most drafts and masks of a narrow pass

TRIALS = 5  # passes of a layout before its time counts as known
KEPT = 15  # passes that its time is the median of
RETRY = 100  # passes after which a layout that was nearly the best is timed again
WORTH_A_TRY = 0.85
USUAL_COLUMNS = 10  # of a plan with masks, before any was seen
USUAL_COPIES = 3  # of one without
# Gains before anything was seen.
EXPECTED: dict[Layout, float] = {
    "none": 1.0,
    "copy": 1.5,
    "narrow": 1.7,
    "linear": 2.0,
    "tree": 2.2,
    "lookup": 2.5,
    "quadratic": 3.0,
}
PRIOR = 5  # passes of a row that these count for
REMEMBERED = 400  # passes of a row that the running mean of what a layout gains goes back, about


# Cached because every row asks in every pass.
@cache
def reach_of(layout: Layout, drafts: int) -> int:
    """The most drafts that a pass reads, and the number of masks behind them; K is `drafts`.

    The narrow layout's are less than half of K, so that its passes always have fewer columns than linear ones, whose
    number varies. It has none where K is under 3: then there is no such layout.
    """
    return {"none": 0, "copy": 0, "narrow": min(NARROW, (drafts - 1) // 2)}.get(layout, drafts)


def layouts_of(drafts: int, *, trees: bool = False) -> tuple[Layout, ...]:
    """The layouts to choose among for so many drafts, in the order of trial; `trees`: passes may be of any width.

    Then `lookup` comes first: where columns are not dear it is the best, and with `copy` it tells what most of the
    others take. One-token passes are those of `copy` where there is nothing to copy.
    """
    found = tuple(layout for layout in LAYOUTS if layout == "none" or reach_of(layout, drafts))
    return ("lookup", "copy", *found[1:]) if trees else found


@cache
def most_gained(layout: Layout, drafts: int) -> int:
    """The tokens that a pass can gain beside its first."""
    return MOST_DRAFTS if layout in ("lookup", "copy") else reach_of(layout, drafts)


def columns_of(layout: Layout, drafts: int) -> int:
    """The most columns of a pass whose rows have one pending token, Q."""
    square = (drafts + 1) ** 2
    found = {"quadratic": square, "tree": min(square, MOST_COLUMNS), "lookup": MOST_COLUMNS, "copy": 1 + MOST_DRAFTS}
    return found.get(layout, 2 * reach_of(layout, drafts) + 1)


@cache
def usual_columns(layout: Layout, drafts: int) -> int:
    """The columns of a pass, before any of this layout was seen."""
    return {"copy": USUAL_COPIES}.get(layout, USUAL_COLUMNS) if layout in TREES else columns_of(layout, drafts)


@cache
def layout_of(columns: int, drafts: int) -> Layout:
    """The layout of a pass of so many predictions a row; a linear or narrow one may have fewer drafts than it could."""
    if columns == columns_of("quadratic", drafts):
        return "quadratic"
    return next(layout for layout in LAYOUTS if columns <= columns_of(layout, drafts))


@dataclass(slots=True)
class Times:
    """Seconds of the last passes of one layout, at about one number of rows."""

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    columns: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    last: int = 0

    @property
    def known(self) -> bool:
        """Whether there were enough passes to go by."""
        return len(self.seconds) >= TRIALS

    @property
    def typical(self) -> float:
        """Median seconds of a pass: one that was interrupted does not count for much. Never 0, whatever the clock."""
        return max(statistics.median(self.seconds), 1e-9)


@dataclass(slots=True)
class Chooser:
    """Times each layout a few times where it may pay, then takes the best; looks again from time to time.

    Times are kept for each layout and number of rows (`size_of`), gains in tokens a row and pass for each layout alone:
    they do not depend on the rows. `row_passes` is how many passes of a row a gain counts for, `previous` the layout of
    the last pass at each size, `unseen` the number of choices since a pass was observed last: where rows of other
    methods share the passes, none is.
    """

    drafts: int
    trees: bool = False
    chosen: Layout = "linear"
    times: dict[tuple[int, Layout], Times] = field(default_factory=dict)
    gains: dict[Layout, float] = field(default_factory=dict)
    row_passes: dict[Layout, int] = field(default_factory=dict)
    previous: dict[int, Layout] = field(default_factory=dict)
    now: int = 0
    unseen: int = 0

    def choose(self, rows: int) -> Layout:
        """The layout of the next pass of `rows` rows."""
        self.chosen = self._choose(rows)
        return self.chosen

    def price(self, rows: int) -> float:
        """What one more column of each of `rows` rows costs, in tokens that the best layout would write meanwhile."""
        size = size_of(rows)
        known = {layout: times for (of, layout), times in self.times.items() if of == size and times.known}
        if not known:
            return PRICE
        rates = {name: size * self.gain(name) / times.typical for name, times in known.items()}
        best = max(rates, key=rates.__getitem__)
        usual = known.get("lookup", known[best])
        found = costs.price(self._points(known, size), size * statistics.fmean(usual.columns), rates[best])
        return found or PRICE

    def _choose(self, rows: int) -> Layout:
        self.unseen += 1
        size = size_of(rows)
        if self.unseen > TRIALS:
            return self._best_known(size)
        found = {layout: self.times.setdefault((size, layout), Times()) for layout in self._layouts}
        rates = {layout: self.gain(layout) / times.typical for layout, times in found.items() if times.known}
        best = max(rates, key=rates.__getitem__, default=None)
        for layout, times in found.items():
            if not times.known and self._may_pay(layout, found, size, max(rates.values(), default=0.0)):
                return layout
        for layout, rate in rates.items():
            if self.now - found[layout].last > RETRY and best is not None and rate > WORTH_A_TRY * rates[best]:
                return layout
        return best or "linear"

    def observe(self, rows: int, columns: int, seconds: float, accepted: int, layout: Layout | None = None) -> None:
        """Learn from a pass: its predictions a row, seconds, and the tokens that its rows accepted together.

        The first pass after one of another layout says little of its own: it verifies what that has left, or nothing.
        """
        self.unseen = 0
        self.now += 1
        layout = layout or layout_of(columns, self.drafts)
        previous = self.previous.get(size_of(rows))
        self.previous[size_of(rows)] = layout
        if layout not in (*MASKLESS, previous):
            return
        times = self.times.setdefault((size_of(rows), layout), Times())
        times.seconds.append(seconds)
        times.columns.append(columns)
        times.last = self.now
        seen = self.row_passes.get(layout, PRIOR)
        self.gains[layout] = (seen * self.gain(layout) + accepted) / (seen + rows)
        self.row_passes[layout] = min(seen + rows, REMEMBERED)

    def gain(self, layout: Layout) -> float:
        """Tokens a row and pass of this layout gain, as far as is known; what drafts gain in one says it of others."""
        if layout in self.gains or layout in MASKLESS:
            return self.gains.get(layout, EXPECTED[layout])
        found = [gain / EXPECTED[other] for other, gain in self.gains.items() if other not in MASKLESS]
        return min(EXPECTED[layout] * max(found, default=1.0), most_gained(layout, self.drafts) + 1.0)

    def _may_pay(self, layout: Layout, found: Mapping[Layout, Times], size: int, best: float) -> bool:
        """Whether a layout not timed yet at this size could beat the best rate, in tokens a second and row.

        Its time is between those of its neighbours, or extrapolated from layouts with fewer columns.
        """
        known = self._points({name: times for name, times in found.items() if times.known}, size)
        columns = size * usual_columns(layout, self.drafts)
        if not known or columns < known[0][0]:
            return True
        high, long = known[-1]
        seconds = long + WORTH_A_TRY * costs.slope(known) * (columns - high)
        if columns < high:
            seconds = costs.curve(known, columns) or long
        return self.gain(layout) > WORTH_A_TRY * best * seconds

    def _points(self, known: Mapping[Layout, Times], size: int) -> costs.Points:
        """Columns of passes of `size` rows and their seconds, of the layouts timed."""
        return sorted((size * statistics.fmean(times.columns), times.typical) for times in known.values())

    @property
    def _layouts(self) -> tuple[Layout, ...]:
        return layouts_of(self.drafts, trees=self.trees)

    def _best_known(self, size: int) -> Layout:
        """The best layout at the nearest size that was timed; linear where none was."""
        sizes = [number for (number, _), times in self.times.items() if times.known]
        if not sizes:
            return "linear"
        nearest = min(sizes, key=lambda number: (abs(number - size), number))
        known = {layout: self.times.get((nearest, layout), Times()) for layout in self._layouts}
        rates = {layout: self.gain(layout) / times.typical for layout, times in known.items() if times.known}
        return max(rates, key=rates.__getitem__)


_CHOOSERS: weakref.WeakKeyDictionary[Engine, dict[int, Chooser]] = weakref.WeakKeyDictionary()
_EXPECTATIONS: weakref.WeakKeyDictionary[Engine, dict[int, Expectation]] = weakref.WeakKeyDictionary()


def chooser_of(engine: Engine, drafts: int, *, trees: bool = False) -> Chooser:
    """The chooser of this engine, which remembers what earlier runs have measured."""
    return _CHOOSERS.setdefault(engine, {}).setdefault(drafts, Chooser(drafts, trees))


def expectation_of(engine: Engine, drafts: int) -> Expectation:
    """The expectation of this engine's drafts that earlier runs have learned."""
    return _EXPECTATIONS.setdefault(engine, {}).setdefault(drafts, Expectation(drafts))
