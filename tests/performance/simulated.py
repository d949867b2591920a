"""A server without a model, by events: real controllers, made-up texts and times of passes, and a clock that jumps.

It tells what a policy does with a load in a second for each minute, and the same each time. Prompts are read in turn
with the passes of the rows that write, as in mars/decoding/pool.py. A text is a row of chances: whether a copy is right
at each of its tokens, and whether a mask is, are the same for all lanes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.controller import Controller
from mars.decoding.method import Row
from mars.decoding.pool import BESIDE_CHUNK, FEWEST_BESIDE, PREFILL_CHUNK
from mars.decoding.self_speculative import SelfSpeculative
from mars.decoding.trees import MASKLESS, MOST_DRAFTS, Expectation, Plan, columns_of, reach_of
from tests.performance.asking import Asked
from tests.performance.traces import Answers, Trace

DRAFTS = 7
PLACES = 8
METHOD = SelfSpeculative(mask_token_id=31, drafts=DRAFTS, sure=0.5, layout=None, expectation=Expectation(DRAFTS))
MASKS = (0.62, 0.5, 0.45, 0.42, 0.4, 0.4, 0.4)  # how often each is right if those before it are
IN_LINE = 0.85  # times that where masks stand behind one prefix alone
RIGHT, SELDOM = 0.85, 0.3  # how often a copy is right where the text repeats itself, and elsewhere if there is one
FOUND = 0.25  # of the tokens elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of a pass: of one column, of each further one, and how many times as long it takes with masks."""

    one: float
    column: float
    masks: float

    def of(self, columns: int, *, masked: bool) -> float:
        """The seconds of a pass."""
        return (self.one + self.column * (columns - 1)) * (self.masks if masked else 1.0)


@dataclass(frozen=True, slots=True)
class Text:
    """The tokens of a prompt and its answer: for each token how likely a copy is right, and a chance from 0 to 1."""

    prompt: int
    tokens: Sequence[tuple[float, float]]

    @classmethod
    def drawn(cls, dice: random.Random) -> Text:
        """One that repeats itself now and then."""
        prompt = min(1500, round(dice.lognormvariate(4.8, 0.8)))
        length, repeats = min(256, 16 + round(dice.lognormvariate(5.0, 0.5))), dice.betavariate(1.5, 1.5)
        tokens: list[tuple[float, float]] = []
        while len(tokens) < length:
            again = dice.random() < repeats
            count = dice.randint(8, 30)
            tokens += [(RIGHT if again else SELDOM * (dice.random() < FOUND), dice.random()) for _ in range(count)]
        return cls(prompt, tokens[:length])


@dataclass(slots=True, eq=False)
class Visitor:
    """A request: its text, what is left of its prompt, and when what came."""

    number: int
    question: int
    text: Text
    arrived: float
    row: Row
    unread: int
    written: int = 0
    first: float = 0.0
    ended: float = 0.0


@dataclass(slots=True)
class Simulation:
    """A lane; without a controller its rows write one token each."""

    times: Times
    controller: Controller | None
    now: float = 0.0
    _number: int = 0
    _drafted: int = 0
    _line: deque[Visitor] = field(default_factory=deque)
    _rows: list[Visitor] = field(default_factory=list)

    def play(self, trace: Trace, texts: Sequence[Text]) -> Answers:
        """The answers to a trace that begins now."""
        start, decoded = self.now, False
        visitors = [self._visitor(start + when, question, texts[question]) for when, question in trace]
        coming = deque(visitors)
        while coming or self._line or self._rows:
            if not self._rows and not self._line:
                self.now = max(self.now, coming[0].arrived)
            while coming and coming[0].arrived <= self.now:
                self._line.append(coming.popleft())
            while self._line and len(self._rows) < PLACES:
                self._rows.append(self._line.popleft())
            reading = [one for one in self._rows if one.unread]
            decoded = not (reading and (decoded or len(reading) == len(self._rows)))
            self._decode(len(reading)) if decoded else self._read(reading)
        return [(one.question, _asked(one)) for one in visitors]

    def _visitor(self, arrived: float, question: int, text: Text) -> Visitor:
        self._number += 1
        row = Row(number=self._number, prompt=[3], method=METHOD, settings=DecodingSettings(), control=Control(None))
        return Visitor(self._number, question, text, arrived, row, text.prompt)

    def _read(self, reading: Sequence[Visitor]) -> None:
        writing = len(self._rows) - len(reading)
        most = max((BESIDE_CHUNK + self._drafted) // len(reading), FEWEST_BESIDE) if writing else PREFILL_CHUNK
        columns = 0
        for one in reading:
            columns += min(one.unread, most)
            one.unread -= min(one.unread, most)
        self._passed(self.times.of(columns, masked=False))

    def _passed(self, seconds: float) -> None:
        self.now += seconds
        if self.controller is not None:
            self.controller.passed([one.row for one in self._rows], seconds)

    def _decode(self, reading: int) -> None:
        writing = [one for one in self._rows if not one.unread]
        rows = [one.row for one in writing]
        if self.controller is not None:
            self.controller.plan(rows, reading=reading, waiting=len(self._line), places=PLACES)
        columns, any_masks = {}, False
        for one in writing:
            columns[one.number], one.row.gained, masked = spent(one, steered=self.controller is not None)
            one.row.plan = Plan((), (DRAFTS,) if masked else (0,))
            any_masks |= masked
        self._drafted = sum(columns.values()) - len(columns)
        seconds = self.times.of(sum(columns.values()), masked=any_masks)
        if self.controller is not None:
            self.controller.observe(rows, columns, seconds)
        for one in writing:
            one.written += one.row.gained
            one.row.written = one.written
        self._passed(seconds)
        for one in writing:
            one.first = one.first or self.now
            if one.written >= len(one.text.tokens):
                one.ended = self.now
                self._rows.remove(one)


def spent(one: Visitor, *, steered: bool) -> tuple[int, int, bool]:
    """The columns of a row in a pass, the tokens that it gains, and whether there are masks."""
    method = one.row.method
    name = one.row.layout or "none"
    if not steered or name == "none" or not isinstance(method, SelfSpeculative):
        return 1, 1, False
    copy = one.text.tokens[min(one.written, len(one.text.tokens) - 1)][0]
    copies = name == "copy" or (name == "lookup" and copy == RIGHT)
    if name in ("narrow", "linear", "quadratic"):
        each = [chance * (1.0 if name == "quadratic" else IN_LINE) for chance in MASKS[: reach_of(name, DRAFTS)]]
        return columns_of(name, DRAFTS), 1 + right(one, each), True
    chances = [copy] * MOST_DRAFTS if copies else MASKS
    each = list(worth(chances, method.price(one.row, masked=not copies) if method.price else 0.0))
    masks = 0 if copies else 1 + len(each) * 3 // 2
    return 1 + len(each) + masks, 1 + right(one, each), name not in MASKLESS and not copies


def worth(chances: Iterable[float], price: float) -> Iterable[float]:
    """Those of a chain of drafts that are reached and right often enough to pay for their column."""
    reached = 1.0
    for chance in chances:
        reached *= chance
        if reached < max(price, 1e-6):
            return
        yield chance


def right(one: Visitor, chances: Sequence[float]) -> int:
    """How many of a row's next drafts are right before the first that is not."""
    tokens = one.text.tokens[one.written + 1 : one.written + 1 + len(chances)]
    count = 0
    for (_, chance), draft in zip(tokens, chances, strict=False):
        if chance >= draft:
            break
        count += 1
    return count


def _asked(one: Visitor) -> Asked:
    first, seconds = one.first - one.arrived, one.ended - one.arrived
    return Asked(status=200, tokens=len(one.text.tokens), first=first, seconds=seconds, finish="stop")
