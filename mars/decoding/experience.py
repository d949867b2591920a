"""What rows may spend in a pass, and what the controller (mars/decoding/controller.py) knows of that and of the rows.

The letters are those of its formula: G the tokens that a row gains in a pass, f how many more a row gains than others,
T the seconds of a pass, s what masks that plans leave out save of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from mars.decoding.costs import Kind, PassTimes
from mars.decoding.method import Method
from mars.decoding.self_speculative import SelfSpeculative
from mars.decoding.sliding_window import SlidingWindow
from mars.decoding.trees import MASKLESS, REMEMBERED, TREES, Layout, reach_of
from mars.decoding.turns import Speed

HOLD = 6  # passes that a choice is kept for at least: in the first, there are no drafts to verify
LEARNED = 18  # passes until which a choice is tried again at once: what a row gains varies much from pass to pass
RETRY = 150  # passes after which another choice is tried again; twice as many each time that it comes to nothing
LATEST = 0.03  # the weight of a pass in s
BONUS = 1.15  # on the claim of rows that spend already, so that rows do not take turns
FORGET = 0.95  # what counts of a row's tokens a pass later
PRIOR = 2.0  # passes of a row that the expectation of a choice counts as
USUAL = 20.0  # further tokens for which a row is taken to gain as much as others do: it varies from pass to pass


@dataclass(frozen=True, slots=True)
class Choice:
    """What rows may spend: a layout of exact decoding, or `window`, as many masks and a threshold."""

    layout: Layout
    window: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of a pass in which all rows spend it."""
        if self.layout in MASKLESS:
            return "plain"
        return "tree" if self.layout in (*TREES, "quadratic") else "line"

    def method(self, exact: SelfSpeculative, price: Callable[..., float] | None = None) -> Method:
        """The method of a row in a pass under this choice; `exact` is its own method, `price` the price of a column.

        All choices with plans have the same method, so that their rows share a window.
        """
        if not self.window:
            planned = exact.expectation is not None and self.layout in ("none", *TREES)
            return replace(exact, layout=LOOKUP.layout if planned else self.layout, price=price)
        masks = reach_of(self.layout, exact.drafts)
        return SlidingWindow(
            mask_token_id=exact.mask_token_id, masks=masks, score=exact.score, alternatives=exact.alternatives
        )


NOTHING = Choice("none")
COPY, LOOKUP = Choice("copy"), Choice("lookup")
BASES = (NOTHING, COPY)  # what the rows do that do not spend the choice; copies need an expectation
EXACT = (*BASES, Choice("narrow"), Choice("linear"), LOOKUP, Choice("quadratic"))
WINDOWS = (Choice("narrow", window=True), Choice("linear", window=True))


@dataclass(slots=True)
class Known:
    """What is known of a choice: tokens gained by a row and its columns, from so many passes of a row.

    `passes` counts those of the pool, `last` is the number of the last one, `slow` is s.
    """

    gain: float
    columns: float
    seen: float = PRIOR
    passes: int = 0
    last: int = 0
    slow: float = 1.0

    @property
    def new(self) -> bool:
        """Whether it has been seen in too few passes to judge it."""
        return self.passes < HOLD

    @property
    def unsure(self) -> bool:
        """Whether it has been seen in too few passes to leave it for long."""
        return self.passes < LEARNED

    def learn(self, tokens: int, weight: float, columns: float) -> None:
        """Learn from rows with a total `weight`: the tokens after their first, and their columns."""
        self.gain = 1 + (self.seen * (self.gain - 1) + tokens) / (self.seen + weight)
        self.columns += (columns - self.columns) * weight / (self.seen + weight)
        self.seen = min(self.seen + weight, REMEMBERED)

    def timed(self, seconds: float, masked: float) -> None:
        """Learn from T of a pass as it was, and as it would have been with masks."""
        self.slow += LATEST * (seconds / masked - self.slow)


@dataclass(slots=True)
class Account:
    """A row's own method, its choice now and before, and the further tokens that it gained and was expected to gain."""

    own: SelfSpeculative
    spends: Choice = NOTHING
    before: Choice = NOTHING
    gained: float = 0.0
    expected: float = 0.0

    @property
    def factor(self) -> float:
        """f: 1 at first, and again after a while without spending."""
        return (USUAL + self.gained) / (USUAL + self.expected)

    @property
    def claim(self) -> float:
        """The rank of the row: f, with a bonus if it spends the choice already."""
        return self.factor * (1.0 if self.spends in BASES else BONUS)

    def passed(self, gained: int, expected: float) -> None:
        """Count the tokens of a pass; the first pass of a choice does not count, since it has no drafts."""
        spent = self.spends not in BASES
        if self.before == self.spends or not spent:
            self.gained = FORGET * self.gained + (gained - 1) * spent
            self.expected = FORGET * self.expected + (expected - 1) * spent
        self.before = self.spends


@dataclass(frozen=True, slots=True)
class Goodput:
    """The expected tokens a second of passes of so many columns, and the numbers of the rows that spend the choice."""

    rate: float
    columns: float
    spending: set[int]


@dataclass(slots=True)
class Experience:
    """The times of an engine's passes, and the gain of rows by choice, load and number of drafts.

    `now` counts passes, `tried` is the pass of the last trial, `settled` the best choice at each load, and `patience`
    the number of passes before the next trial. `speeds` are those of windows by threshold, and of exact decoding. Pools
    in several threads may use it and add to it: each holds the `lock` meanwhile.
    """

    times: PassTimes = field(default_factory=PassTimes)
    known: dict[tuple[Choice, int, int], Known] = field(default_factory=dict)
    now: int = 0
    tried: int = 0
    settled: dict[int, Choice] = field(default_factory=dict)
    patience: int = RETRY
    speeds: dict[tuple[Choice | None, float | None], Speed] = field(default_factory=dict)
    lock: AbstractContextManager[object] = field(default_factory=threading.Lock)
