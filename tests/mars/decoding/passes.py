"""A pool without a model, for the tests of the controller: made-up times and gains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.controller import Controller
from mars.decoding.method import Method, Row
from mars.decoding.self_speculative import SelfSpeculative
from mars.decoding.sliding_window import SlidingWindow
from mars.decoding.trees import MASKLESS, TREES, Expectation, Plan, columns_of

DRAFTS = 7
GAINS = {
    "none": 1.0,
    "copy": 1.3,
    "narrow": 2.5,
    "linear": 3.0,
    "lookup": 3.6,
    "quadratic": 4.0,
    "short window": 2.6,
    "window": 4.0,
}
AUTO = SelfSpeculative(mask_token_id=31, drafts=DRAFTS, sure=0.5, layout=None)
PLANNED = SelfSpeculative(mask_token_id=31, drafts=DRAFTS, sure=0.5, layout=None, expectation=Expectation(DRAFTS))
NO_COLUMNS = Plan((), (0,))
Seconds = Callable[[int], float]


def waits_for_memory(columns: int) -> float:
    """Columns are free up to 100."""
    return max(1.0, columns / 100)


def jumps(columns: int) -> float:
    """Two columns are other kernels than more, as on CPUs; then every column costs a little."""
    return 1.0 if columns < 3 else 1.3 + 0.05 * columns


def computes(columns: int) -> float:
    """Every column costs as much."""
    return 0.1 + columns


@dataclass
class Passes:
    """A pool without a model: passes take `seconds` by their columns, a row gains what its choice does, times its f.

    Passes with masks take `extra` more; `columns` are those of a row where they are not as usual. Each 60 passes the
    text reaches graphs that are yet to be captured: the first `warming` passes of a number of columns take 20 times as
    long, and are not timed.
    """

    controller: Controller
    seconds: Seconds
    gains: dict[str, float] = field(default_factory=lambda: dict(GAINS))
    rows: list[Row] = field(default_factory=list)
    factors: dict[int, float] = field(default_factory=dict)
    clock: float = 0.0
    tokens: float = 0.0
    extra: float = 0.0
    columns: dict[str, int] = field(default_factory=dict)
    warming: int = 0
    uses: Counter[int] = field(default_factory=Counter)
    made: int = 0

    def join(self, count: int, factor: float = 1.0, method: Method = AUTO, *, free: bool = True) -> list[Row]:
        new = [row(len(self.factors) + number, method, free=free) for number in range(count)]
        self.factors |= {one.number: factor for one in new}
        self.rows += new
        return new

    def run(self, passes: int, *, reading: int = 0, waiting: int = 0, places: int = 64) -> list[Counter[str]]:
        """How many rows spent what, pass by pass."""
        found = []
        for _ in range(passes):
            self.controller.plan(self.rows, reading=reading, waiting=waiting, places=places)
            plans = {one.number: self.plan(one) for one in self.rows}
            columns = {number: count for number, (count, _) in plans.items()}
            for one in self.rows:
                # Whole tokens, that are right on average.
                exact = 1 + plans[one.number][1] + one.settings.seed / 1000
                one.gained = int(exact)
                one.settings = DecodingSettings(seed=int(exact % 1 * 1000))
                one.plan = NO_COLUMNS if columns[one.number] == 1 else None
            names = {one.number: name_of(one) if one.plan is None else "none" for one in self.rows}
            masked = any(name not in MASKLESS for name in names.values())
            taken = self.seconds(sum(columns.values())) + self.extra * masked
            if self.made % 60 == 0:
                self.uses.clear()
            self.made += 1
            self.uses[sum(columns.values())] += 1
            cold = self.uses[sum(columns.values())] <= self.warming
            self.controller.observe(self.rows, columns, None if cold else taken)
            self.controller.passed(self.rows, 20 * taken if cold else taken)
            self.clock += 20 * taken if cold else taken
            self.tokens += sum(one.gained for one in self.rows)
            found.append(Counter(name_of(one) for one in self.rows))
        return found

    def plan(self, one: Row) -> tuple[int, float]:
        """The columns of the row and what they gain; a tree has none that gains less than its price.

        The first of a tree's gains almost twice as much as they do on average, the last one almost nothing.
        """
        name = name_of(one)
        most, gained = self.columns.get(name, columns_by(name)) - 1, (self.gains[name] - 1) * self.factors[one.number]
        if name not in TREES or not isinstance(one.method, SelfSpeculative) or one.method.price is None:
            return 1 + most, gained
        price = one.method.price(one, masked=name not in MASKLESS)
        each = [2 * gained / most * (1 - (number + 0.5) / most) for number in range(most)]
        worth = [gain for gain in each if gain >= price]
        return 1 + len(worth), sum(worth)


def row(number: int, method: Method, *, free: bool) -> Row:
    return Row(
        number=number,
        prompt=[3],
        method=method,
        settings=DecodingSettings(),
        control=Control(None, free=free),
    )


def name_of(one: Row) -> str:
    if isinstance(one.method, SelfSpeculative):
        return one.layout or one.method.layout or "auto"
    if isinstance(one.method, SlidingWindow):
        return "window" if one.method.masks == DRAFTS else "short window"
    return "none"


def columns_by(name: str) -> int:
    others = {"short window": 5, "window": DRAFTS + 3, "lookup": 10, "copy": 3}
    return others[name] if name in others else columns_of(name, DRAFTS)  # type: ignore[arg-type]


def fixed(name: str, seconds: Seconds, rows: int) -> float:
    """Tokens a second if all rows always spend the same."""
    return rows * GAINS[name] / seconds(rows * columns_by(name))
