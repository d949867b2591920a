"""What each row may spend on masks and drafts in the next pass: by what passes take, what rows gain, and who waits.

A pass has one choice, such as a layout of exact decoding, and the rows that spend it; the others write one token each.
Of a choice c are known G, the tokens that a row gains in a pass, and q, its columns, of all T(Q), the seconds of a pass
of Q columns, all measured while text is written. A row that has gained f times as many further tokens as others so far
is expected to go on so. Of n rows, let the k of largest f spend, and let P be the seconds of a pass that reads prompts
in between:

    goodput(c, k) = (n + Σ f (G - 1)) / (T(n + k (q - 1)) + P)        tokens a second; the sum is over the k rows

The largest wins, but a change must promise more than `MARGIN`, and then stays for `HOLD` passes. The texts are the same
whatever is chosen. Only with `thresholds`, the policy `knob`, and only rows whose request leaves it open may be decoded
with a threshold while requests wait for a place: it falls along the thresholds, and rises again, step by step.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mars.decoding.layouts import (
    EXPECTED,
    REMEMBERED,
    Layout,
    columns_of,
    reach_of,
    size_of,
)
from mars.decoding.method import Method, Row
from mars.decoding.self_speculative import SelfSpeculative
from mars.decoding.sliding_window import SlidingWindow

TRIALS = 3  # passes after which a time counts as known
KEPT = 9  # passes that a time is the median of
HOLD = 6  # passes that a choice is kept for at least: in the first, there are no drafts to verify
REVIEW = 3  # passes after which rows are ranked anew, or when rows come or go
RETRY = 150  # passes after which another choice is tried again; twice as many each time that it comes to nothing
LONGEST_RETRY = 1200
WORTH_A_TRY = 0.6  # the part of the best goodput that it must promise
MARGIN = 0.02  # by which another choice must be better
FEW = 32  # columns of passes that take about as long as one of a single column, on most devices
MIXED = 1.1  # how much longer a pass takes in which some rows spend and others do not, before any was seen
BONUS = 1.15  # on the claim of rows that spend already, so that rows do not take turns
PATIENCE = 20  # passes in which requests wait, or places are free, before the threshold moves
FORGET = 0.95  # what counts of a row's tokens a pass later
PRIOR = 2.0  # passes of a row for which counts what was expected of a choice
USUAL = 4.0  # further tokens for which a row is taken to gain as much as others do


@dataclass(frozen=True, slots=True)
class Choice:
    """What rows may spend: a layout of exact decoding, or `window`, as many masks and a threshold."""

    layout: Layout
    window: bool = False

    def method(self, exact: SelfSpeculative) -> Method:
        """The method of a row that is to be decoded exactly, for a pass."""
        if not self.window:
            return replace(exact, layout=self.layout, chooser=None)
        masks = reach_of(self.layout, exact.drafts)
        return SlidingWindow(
            mask_token_id=exact.mask_token_id, masks=masks, score=exact.score, alternatives=exact.alternatives
        )

    def columns(self, drafts: int) -> float:
        """How many a row takes, before any were seen."""
        return reach_of(self.layout, drafts) + 2 if self.window else columns_of(self.layout, drafts)


NOTHING = Choice("none")
EXACT = (NOTHING, Choice("narrow"), Choice("linear"), Choice("quadratic"))
WINDOWS = (Choice("narrow", window=True), Choice("linear", window=True))


@dataclass(slots=True)
class Known:
    """What is known of a choice: tokens gained by a row and its columns, from so many passes of a row.

    `passes` counts those of the pool, `last` is the number of the last one.
    """

    gain: float
    columns: float
    seen: float = PRIOR
    passes: int = 0
    last: int = 0

    def learn(self, tokens: int, weight: float, columns: float) -> None:
        """Further tokens of rows that count for `weight`, and their columns."""
        self.gain = 1 + (self.seen * (self.gain - 1) + tokens) / (self.seen + weight)
        self.columns += (columns - self.columns) * weight / (self.seen + weight)
        self.seen = min(self.seen + weight, REMEMBERED)


class Profile:
    """Seconds of a pass by its columns: the median of the last passes of each size, joined by lines.

    Of two sizes the smaller takes no longer: what an interruption has made slow is corrected by what is beside it.
    """

    def __init__(self) -> None:
        self._times: dict[int, deque[tuple[int, float]]] = {}
        self._points: dict[int, tuple[float, float]] = {}
        self._curve: list[tuple[float, float]] = []

    def took(self, columns: int, seconds: float) -> None:
        """A pass of so many columns took so long."""
        size = size_of(columns)
        times = self._times.setdefault(size, deque(maxlen=KEPT))
        times.append((columns, seconds))
        if len(times) < TRIALS:
            return
        self._points[size] = (
            sum(columns for columns, _ in times) / len(times),
            statistics.median(seconds for _, seconds in times),
        )
        self._curve = sorted(self._points.values())
        for place in range(len(self._curve) - 2, -1, -1):
            columns_here, here = self._curve[place]
            self._curve[place] = (columns_here, min(here, self._curve[place + 1][1]))

    def seconds(self, columns: float) -> float | None:
        """What a pass of so many columns takes; None before anything is known."""
        return curve(self._curve, columns)


@dataclass(slots=True)
class Account:
    """A row's method as it came, what it spends now, and the further tokens that it gained and was expected to gain."""

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
        """f, as rows are ranked by it."""
        return self.factor * (1.0 if self.spends == NOTHING else BONUS)

    def passed(self, gained: int, expected: float) -> None:
        """The row wrote so many tokens; the first pass of a choice says nothing, having no drafts."""
        spent = self.spends != NOTHING
        if self.before == self.spends or not spent:
            self.gained = FORGET * self.gained + (gained - 1) * spent
            self.expected = FORGET * self.expected + (expected - 1) * spent
        self.before = self.spends


@dataclass(frozen=True, slots=True)
class Goodput:
    """Tokens a second that are expected, and the numbers of the rows that spend for it."""

    rate: float
    spending: set[int]


class Controller:
    """Decides for the rows of one pool. `thresholds` descend; without any the policy is `exact`."""

    def __init__(self, thresholds: Sequence[float] = ()) -> None:
        self.choice = NOTHING
        self._steps: tuple[float | None, ...] = (None, *thresholds)
        self._step = 0
        self._pressure = 0
        self._known: dict[Choice, Known] = {}
        self._profile = Profile()
        self._mixed = MIXED
        self._accounts: dict[int, Account] = {}
        self._spending: set[int] = set()
        self._prompts: deque[float] = deque(maxlen=3 * TRIALS)
        self._now = 0
        self._changed = 0
        self._tried = 0
        self._settled = NOTHING
        self._patience = RETRY

    @property
    def threshold(self) -> float | None:
        """The threshold in force for rows that leave it open; None while they are decoded exactly."""
        return self._steps[self._step]

    def plan(self, rows: Sequence[Row], *, reading: int, waiting: int, places: int) -> list[Row]:
        """Set the method for the next pass of those of `rows`, which write, whose own is exact decoding, layout auto.

        `reading` and `waiting` count requests whose prompts are read, and those that have none of the `places`.

        Returns: the rows to `Method.begin` with: past their last token there are no drafts.
        """
        self._now += 1
        moved = self._watch(waiting, len(rows) + reading, places)
        accounts = {row.number: account for row in rows if (account := self._account(row)) is not None}
        changed = moved or accounts.keys() != self._accounts.keys()
        self._accounts = accounts
        steered = [row for row in rows if row.number in accounts]
        if not steered:
            return []
        if changed or self._now % REVIEW == 0:
            overhead = statistics.median(self._prompts) if reading and self._prompts else 0.0
            self._spending = self._choose(steered, len(rows) - len(steered), overhead)
        return [row for row in steered if self._give(row, self.choice if row.number in self._spending else NOTHING)]

    def observe(self, rows: Iterable[Row], columns: Mapping[int, int], seconds: float) -> None:
        """Learn from the pass that was planned; `columns` are the positions computed for each row, by its number."""
        accounts = {row.number: (row, account) for row in rows if (account := self._accounts.get(row.number))}
        if not accounts:
            return
        spent = {number: pair for number, pair in accounts.items() if pair[1].spends != NOTHING}
        known = self._known[self.choice if spent else NOTHING]
        known.passes += 1
        known.last = self._now
        total = sum(columns.values())
        mixed = 0 < len(spent) < len(accounts)
        if mixed and (usual := self._profile.seconds(total)):
            self._mixed += 0.05 * (min(max(seconds / usual, 0.5), 3.0) - self._mixed)
        self._profile.took(total, seconds / (self._mixed if mixed else 1.0))
        settled = {number: pair for number, pair in spent.items() if pair[1].before == pair[1].spends}
        if settled:  # rows that gain more than others say less of what others would
            tokens = sum(row.gained - 1 for row, _ in settled.values())
            weight = sum(account.factor for _, account in settled.values())
            known.learn(tokens, weight, statistics.fmean(columns[number] for number in settled))
        for row, account in accounts.values():
            account.passed(row.gained, known.gain)

    def observe_prompts(self, seconds: float) -> None:
        """Learn what a pass took that read prompts."""
        self._prompts.append(seconds)

    def _choose(self, rows: Sequence[Row], others: int, overhead: float) -> set[int]:
        """Choose for this pass, in which `others` share that are not steered; the numbers of the rows that spend."""
        drafts = min(self._accounts[row.number].own.drafts for row in rows)
        ranked = sorted(rows, key=lambda row: self._accounts[row.number].claim, reverse=True)
        loose = [row for row in ranked if row.control.free and self.threshold is not None]
        found: dict[Choice, Goodput] = {}
        untried: set[bool] = set()
        for choice in (*EXACT, *(WINDOWS if loose else ())):
            if choice.window in untried or not (choice == NOTHING or reach_of(choice.layout, drafts)):
                continue  # the time of wide choices is guessed from those with fewer columns
            able = loose if choice.window else ranked
            found[choice] = self._best(choice, able, others + len(ranked) - len(able), overhead, drafts)
            if self._known[choice].passes < HOLD:
                untried.add(choice.window)
        if self.choice not in found:
            self._change(NOTHING)
        if self._now - self._changed >= HOLD:
            self._reconsider(found)
        return found[self.choice].spending

    def _reconsider(self, found: Mapping[Choice, Goodput]) -> None:
        """Take what promises most; now and then, try again what promises less."""
        best = max(found, key=lambda choice: found[choice].rate)
        most = found[best].rate
        worthy = [choice for choice in found if found[choice].rate > WORTH_A_TRY * most and choice != self.choice]
        oldest = min(worthy, key=lambda choice: self._known[choice].last, default=self.choice)
        if oldest != self.choice and (
            self._known[oldest].passes < HOLD or self._now - max(self._known[oldest].last, self._tried) > self._patience
        ):
            self._tried, self._patience = self._now, min(2 * self._patience, LONGEST_RETRY)
            self._change(oldest)
        elif most > found[self.choice].rate * (1 + MARGIN):
            if best != self._settled:
                self._settled, self._patience = best, RETRY
            self._change(best)

    def _change(self, choice: Choice) -> None:
        self.choice, self._changed = choice, self._now

    def _best(self, choice: Choice, rows: Sequence[Row], others: int, overhead: float, drafts: int) -> Goodput:
        """The largest goodput with this choice, for which `rows` are ranked; `others` write one token each."""
        known = self._of(choice, drafts)
        tokens = columns = float(len(rows) + others)
        if choice == NOTHING:
            return Goodput(tokens / self._seconds(columns, overhead), set())
        rates = []
        for count, row in enumerate(rows, start=1):
            account = self._accounts[row.number]
            tokens += min(account.factor * (known.gain - 1), reach_of(choice.layout, account.own.drafts))
            columns += known.columns - 1
            mixed = self._mixed if count < len(rows) else 1.0
            rates.append(tokens / self._seconds(columns, overhead, mixed))
        count = 1 + max(range(len(rates)), key=rates.__getitem__)
        return Goodput(rates[count - 1], {row.number for row in rows[:count]})

    def _seconds(self, columns: float, overhead: float, mixed: float = 1.0) -> float:
        """Of a pass and what comes with it; 1 before anything is known."""
        seconds = self._profile.seconds(columns)
        return 1.0 if seconds is None else max(seconds * mixed + overhead, 1e-9)

    def _of(self, choice: Choice, drafts: int) -> Known:
        """What is known of a choice; until it was tried, it gains what the others let expect."""
        known = self._known.setdefault(choice, Known(1.0, choice.columns(drafts)))
        if known.seen <= PRIOR:
            found = [
                (other.gain - 1) / (EXPECTED[tried.layout] - 1)
                for tried, other in self._known.items()
                if other.seen > PRIOR
            ]
            further = (EXPECTED[choice.layout] - 1) * max(found, default=1.0)
            known.gain = 1 + min(further, reach_of(choice.layout, drafts))
        return known

    def _account(self, row: Row) -> Account | None:
        """The row's account; None for rows that are left alone."""
        if row.number in self._accounts:
            return self._accounts[row.number]
        if isinstance(row.method, SelfSpeculative) and row.method.layout is None:
            return Account(row.method)
        return None

    def _give(self, row: Row, choice: Choice) -> bool:
        """Let the row spend this; whether it comes from a window, which leaves no drafts."""
        account = self._accounts[row.number]
        if row.control.free:
            row.control.threshold = self.threshold
        if choice == account.spends and row.method is not account.own:
            return False
        left_window, account.spends = account.spends.window, choice
        row.method = choice.method(account.own)
        return left_window and not choice.window

    def _watch(self, waiting: int, taken: int, places: int) -> bool:
        """Move the threshold a step after some passes in a row in which requests wait, or half of the places are free.

        What windows gain is learned anew then. Returns: whether it moved.
        """
        sign = 1 if waiting else -1 if taken <= places / 2 else 0
        self._pressure = self._pressure + sign if sign * self._pressure > 0 else sign
        step = min(max(self._step + sign, 0), len(self._steps) - 1)
        if abs(self._pressure) < PATIENCE or step == self._step:
            return False
        self._step, self._pressure = step, 0
        for choice in WINDOWS:
            if choice in self._known:
                self._known[choice].seen = PRIOR
        return True


def curve(points: Sequence[tuple[float, float]], columns: float) -> float | None:
    """Seconds at so many columns, of ascending points (columns, seconds): in between they are joined by lines.

    Further to the right, time is taken to grow as it does from the first to the last of them, and, past `FEW` columns,
    at least a quarter as much as the columns do: so wide passes are tried step by step. None without points.
    """
    if not points:
        return None
    place = bisect_left(points, (columns, 0.0))
    if place == 0:
        return points[0][1]
    before, taken = points[place - 1]
    if place < len(points):
        behind, longer = points[place]
        return taken + (longer - taken) * (columns - before) / (behind - before)
    first, shortest = points[0]
    slope = (taken - shortest) / (before - first) if before > first else 0.0
    return taken + max(slope, taken / max(before, FEW) / 4) * (columns - before)
