"""Which layout exact decoding takes at a batch size: the one that gains most tokens a second by the passes seen so far.

Step times and acceptance are measured while text is written: wider windows gain more tokens and cost more time, and how
much more depends on the device and on the rows that share it. The choice changes the speed, never the text.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Literal

from mars.engine import Engine

Layout = Literal["none", "linear", "quadratic"]
LAYOUTS: tuple[Layout, ...] = ("none", "linear", "quadratic")

TRIALS = 3
RETRY = 64
SMOOTHING = 0.2
WORTH_A_TRY = 0.8


def columns_of(layout: Layout, drafts: int) -> int:
    """The most columns of a pass whose rows have one pending token, Q."""
    return {"none": 1, "linear": 2 * drafts + 1, "quadratic": (drafts + 1) ** 2}[layout]


def layout_of(columns: int, drafts: int) -> Layout:
    """The layout of a pass of so many predictions a row; a linear one may have fewer drafts than K."""
    if columns == 1:
        return "none"
    return "quadratic" if columns == columns_of("quadratic", drafts) else "linear"


@dataclass(slots=True)
class Seen:
    """What passes of one layout at one number of rows took and gained."""

    passes: int = 0
    seconds: float = 0.0
    accepted: float = 0.0
    last: int = 0

    def add(self, seconds: float, accepted: float, now: int) -> None:
        """Count a pass in: a running mean at first, exponentially smoothed later."""
        self.passes += 1
        weight = max(1 / self.passes, SMOOTHING)
        self.seconds += weight * (seconds - self.seconds)
        self.accepted += weight * (accepted - self.accepted)
        self.last = now

    @property
    def rate(self) -> float:
        """Tokens a second and row."""
        return self.accepted / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Chooser:
    """Tries each layout a few times where it may pay, then takes the best; looks again from time to time.

    `unseen` counts the choices since a pass was observed last: where rows of other methods share the passes, none is.
    """

    drafts: int
    seen: dict[tuple[int, Layout], Seen] = field(default_factory=dict)
    now: int = 0
    unseen: int = 0

    def choose(self, rows: int) -> Layout:
        """The layout of the next pass of `rows` rows."""
        self.unseen += 1
        if self.unseen > TRIALS:
            return self._best_known(rows)
        found = {layout: self.seen.setdefault((rows, layout), Seen()) for layout in LAYOUTS}
        best = max(LAYOUTS, key=lambda layout: found[layout].rate)
        for layout in LAYOUTS:
            if found[layout].passes < TRIALS and self._may_pay(rows, layout, found[best].rate):
                return layout
        for layout in LAYOUTS:
            stale = self.now - found[layout].last > RETRY
            if found[layout].passes and stale and found[layout].rate > WORTH_A_TRY * found[best].rate:
                return layout
        return best

    def observe(self, rows: int, columns: int, seconds: float, accepted: int) -> None:
        """Learn from a pass: its columns, seconds, and the tokens that its rows accepted together."""
        self.unseen = 0
        self.now += 1
        seen = self.seen.setdefault((rows, layout_of(columns, self.drafts)), Seen())
        seen.add(seconds, accepted / rows, self.now)

    def _may_pay(self, rows: int, layout: Layout, best: float) -> bool:
        """Whether a layout not tried enough at this number of rows could beat the best.

        Its time is extrapolated from the layouts with fewer columns, its gain from what it gained at other batch sizes.
        """
        if layout == "none":
            return True
        columns = columns_of(layout, self.drafts)
        narrower = [
            (columns_of(other, self.drafts), self.seen[rows, other].seconds)
            for other in LAYOUTS
            if columns_of(other, self.drafts) < columns and self.seen[rows, other].passes >= TRIALS
        ]
        if not narrower:
            return True
        (low, short), (high, long) = narrower[0], narrower[-1]
        slope = (long - short) / (high - low) if high > low else 0.0
        seconds = long + WORTH_A_TRY * slope * (columns - high)
        return self._gain(layout) / seconds > best if seconds else True

    def _best_known(self, rows: int) -> Layout:
        """The best layout at the nearest number of rows that was measured; linear where none was."""
        measured = [number for (number, _), seen in self.seen.items() if seen.passes >= TRIALS]
        if not measured:
            return "linear"
        nearest = min(measured, key=lambda number: (abs(number - rows), number))
        return max(LAYOUTS, key=lambda layout: self.seen.get((nearest, layout), Seen()).rate)

    def _gain(self, layout: Layout) -> float:
        """Tokens a row and pass of this layout gain, at most, as far as is known."""
        known = [seen.accepted for (_, other), seen in self.seen.items() if other == layout and seen.passes >= TRIALS]
        return max(known) if known else self.drafts + 1.0


_CHOOSERS: weakref.WeakKeyDictionary[Engine, dict[int, Chooser]] = weakref.WeakKeyDictionary()


def chooser_of(engine: Engine, drafts: int) -> Chooser:
    """The chooser of this engine, which remembers what earlier runs have measured."""
    return _CHOOSERS.setdefault(engine, {}).setdefault(drafts, Chooser(drafts))
