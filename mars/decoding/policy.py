"""What rows spend in the next pass, where their methods leave it open (`Method.adapts`), and τ under load.

Among one token, copies and some masks a row gets what writes most tokens a second. Two things are measured:

    T(Q)   the seconds of a pass of Q columns, with masks and without, when a server starts and by a moving average:
           in passes with masks an adapter computes
    s_k    how often the first k masks behind a row's text propose what is taken: a moving average of the row

The price λ of a column, in tokens, is the slope of T times the tokens a second. A row wants masks while they pay for
their columns, s_k ≥ λ (1 + s_k): a token that is taken is read once more. With g tokens and q columns a row without
masks, n rows spend their masks if

    (n g + Σ s_k) / T_masks(n q + Σ (1 + s_k))  >  n g / T(n q)

by more than `MARGIN` if they spent none before, and go on until they lose as much. Copies need no choice: each of them
pays λ by itself (mars/decoding/trees.py). A row without masks tries one again now and then (`Reach.due`), and of many
passes with masks one goes without. In static shapes all rows have as many columns: there the choice is among no masks
and the layouts of exact decoding. Exact texts are the same either way.

With `thresholds`, which descend, rows whose requests leave τ open (`Control.free`) are decoded without one until
requests wait; then τ falls along the list, and rises again while half of the places are free.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from mars.decoding.method import Method, Row
from mars.decoding.trees import AGAIN, PRICE, SOON, Reach
from mars.engine import Engine

STEP = 1 / 12  # of moving averages
SLOWER = 1 / 40  # of that of seconds, for passes that take longer than usual: most were interrupted
FASTER = 1 / 2  # of the same, for others
TIMED = 3  # passes of a size that say what it takes, the least of them: any may be interrupted, and the first is slow
MARGIN = 0.01  # by which another choice must be better
CHEAPEST = 0.01  # price of a column, in tokens
MANY = 4  # columns from which on a pass says what wider ones take: below, devices use other kernels
FEW = 32  # columns that are taken to cost little until they are timed
PATIENCE = 20  # passes in which requests wait, or places are free, before τ moves
MEASURED = (1, 2, 4, 8, 16, 32)  # columns of the passes that are measured before any request


class PassTimes:
    """T: seconds of a pass by its columns, with masks and without."""

    def __init__(self) -> None:
        self._seconds: dict[bool, dict[int, float]] = {False: {}, True: {}}  # by size
        self._first: dict[tuple[bool, int], list[float]] = {}  # the first of each size, by masked and size
        self.masked = 0  # passes with masks since one without

    def took(self, columns: int, seconds: float, *, masked: bool) -> None:
        """A pass of so many columns took so long."""
        times, size, seconds = self._seconds[masked], size_of(columns), max(seconds, 1e-9)  # not 0
        self.masked = self.masked + 1 if masked else 0
        if (usual := times.get(size)) is None:
            (first := self._first.setdefault((masked, size), [])).append(seconds)
            if len(first) >= TIMED:
                times[size] = min(first)
        elif 2 * seconds < usual:  # it was wrong, and so may be the others
            self._seconds[masked], self._first = {size: seconds}, {}
        else:
            times[size] += (FASTER if seconds < usual else SLOWER) * (min(seconds, 2 * usual) - usual)

    def knows(self, columns: float) -> bool:
        """Whether a pass of about so many columns, without masks, was timed."""
        return any(columns / 2 <= size <= 2 * columns for size in list(self._seconds[False]))

    def seconds(self, columns: float, *, masked: bool = False) -> float:
        """The seconds of a pass of so many columns; 1 before any was timed.

        Lines join what is known. A pass takes no longer than wider ones do: what contradicts this was interrupted. To
        the right of all, it is taken to grow a quarter as fast as columns do, and not before `FEW`: so they are tried.
        """
        points = sorted((self._seconds[masked] or self._seconds[not masked]).items())
        if not points:
            return 1.0
        lowest = list(accumulate((seconds for _, seconds in reversed(points)), min))[::-1]
        place = bisect_left(points, (columns, 0.0))
        if place == len(points):
            widest = max(points[-1][0], FEW)
            return lowest[-1] * (1 + max(columns - widest, 0) / widest / 4)
        if place == 0:
            return lowest[0]
        (left, _), (right, _) = points[place - 1], points[place]
        return lowest[place - 1] + (lowest[place] - lowest[place - 1]) * (columns - left) / (right - left)

    def slope(self, columns: float, *, masked: bool) -> float:
        """The seconds of one more column in a pass of about so many."""
        low, high = max(columns / 2, MANY), max(2 * columns, FEW)
        return (self.seconds(high, masked=masked) - self.seconds(low, masked=masked)) / (high - low)


_TIMES: weakref.WeakKeyDictionary[Engine, PassTimes] = weakref.WeakKeyDictionary()


class Policy:
    """Chooses for the rows of one pool; pools of one engine share its `PassTimes`."""

    def __init__(self, engine: Engine, thresholds: Sequence[float] = ()) -> None:
        self.times = _TIMES.setdefault(engine, PassTimes())
        self._steps: tuple[float | None, ...] = (None, *thresholds)
        self._step = self._pressure = 0
        self._reach: dict[tuple[int, float | None], Reach] = {}  # by row and τ: s
        self._judged: dict[int, int] = {}  # by row: the proposals that the next pass verifies, or judges by τ
        self._spends = self._masked = False
        self._together = 0  # the choice in static shapes: an index of `Method.mask_counts`
        self._tokens = self._columns = 1.0  # g and q
        self._price = PRICE

    @property
    def threshold(self) -> float | None:
        """τ of rows that leave it open; None while there is none."""
        return self._steps[self._step]

    def restart(self) -> None:
        """Begin without τ: the load that moved it has ended."""
        self._step = self._pressure = 0

    def ways(self, own: Method, threshold: float | None) -> list[tuple[Method, float | None]]:
        """The methods, each with one of its thresholds, that rows of this one may have in static shapes."""
        lowest = (threshold if len(self._steps) == 1 else self._steps[-1]) if own.uses_threshold else None
        methods = [own.spending(masks) for masks in own.mask_counts] if own.adapts else [own]
        return [(method, one) for method in methods for one in dict.fromkeys((None, lowest))]

    def plan(self, rows: Sequence[Row], *, reading: int, waiting: int, places: int) -> None:
        """Say what each of `rows`, which write in the next pass, spends in it.

        `reading` counts requests whose prompts are being read, `waiting` those without one of the `places`.
        """
        self._turn(waiting, len(rows) + reading, places)
        for row in rows:
            if len(self._steps) > 1 and row.control.free and row.own.uses_threshold:
                row.control.threshold = self.threshold
        adapting = [row for row in rows if row.own.adapts]
        for number, threshold in self._reach.keys() - {(row.number, row.threshold) for row in adapting}:
            del self._reach[number, threshold]
            self._judged.pop(number, None)
        if not adapting:
            return
        spent = self._spends or self._together > 0
        bare = spent and self.times.masked >= AGAIN  # one pass without masks, for its time may have changed
        if bare:
            self.times.masked = 0
        reaches = [self._reach_of(row) for row in adapting]
        due = [reach for row, reach in zip(adapting, reaches, strict=True) if reach.due(row.masks > 0)]
        if adapting[0].own.mask_counts:
            self._choose_together(adapting, reaches, len(rows) - len(adapting), bare=bare)
            return
        wanted = [reach.count(self._price) for reach in reaches]
        tokens, columns = len(rows) * self._tokens, len(rows) * self._columns
        gained = sum(sum(reach.shares[:count]) for reach, count in zip(reaches, wanted, strict=True))
        ratio = self._rate(tokens + gained, columns + gained + sum(wanted), masked=True)
        ratio /= self._rate(tokens, columns, masked=False)
        self._spends = any(wanted) and ratio > (1 - MARGIN if spent else 1 + MARGIN)
        masked, plain = (self.times.seconds(columns, masked=masked) for masked in (True, False))
        # Masks that do not seem to pay are tried all the same, twice in a row's text: times may be wrong. They wait for
        # a timed pass without any, but not beside rows that have them anyway.
        tries = any(reach.patience <= 4 * SOON for reach in due)
        known = self.times.knows(columns) or any(row.own.most_masks and not row.own.adapts for row in rows)
        spends = (self._spends or tries) and known and not bare
        for row, reach, count in zip(adapting, reaches, wanted, strict=True):
            # The first passes say what all masks take. Then one is tried until it is right: a miss costs less.
            most = 1 if self._spends and not reach.found and reach.missed >= TIMED else count
            row.price, row.masks = self._price, min(count, most) if spends else 0
            row.worth = max(masked / plain - 1, 0.0) * self._tokens
            row.method = row.own.spending(row.masks)
            self._judged[row.number] = row.masks if row.own.phase == "decode" else 0  # others learn as they plan

    def _choose_together(self, rows: Sequence[Row], reaches: Sequence[Reach], others: int, *, bare: bool) -> None:
        """The masks of each row where all have as many: none, those behind the drafts, or behind every prefix."""
        gain = sum(sum(reach.shares) for reach in reaches) / len(rows)
        whole = sum(reach.shares[-1] for reach in reaches) / len(rows)
        # The tokens that each choice gains. Masks behind the last draft alone leave none for the next pass where a
        # draft was wrong, which then gains nothing: a cycle takes 1 + (1 - whole) passes.
        gains = 0.0, gain / (2 - whole), gain
        count = len(rows) + others

        def rate(choice: int) -> float:
            masks = sum(row.own.mask_counts[choice] for row in rows)
            drafts = sum(len(reach.shares) for reach in reaches) if choice else 0
            return self._rate(count + len(rows) * gains[choice], count + drafts + masks, masked=choice > 0)

        best = max(range(len(gains)), key=rate)
        if rate(best) > rate(self._together) * (1 + MARGIN):
            self._together = best
        choice = 0 if bare or not self.times.knows(count) else self._together
        for row in rows:
            row.masks = row.own.mask_counts[choice]
            row.method = row.own.spending(row.masks)
            self._judged[row.number] = row.drafted if row.masks else 0

    def _rate(self, tokens: float, columns: float, *, masked: bool) -> float:
        return tokens / self.times.seconds(columns, masked=masked)

    def observe(self, rows: Sequence[Row], columns: int, seconds: float | None, *, masked: bool) -> None:
        """Learn from the pass that was planned, of so many columns.

        `seconds` are None if they say nothing of later passes (`Rows.warming`).
        """
        if seconds is not None:
            self.times.took(columns, seconds, masked=masked)
        if not rows:
            return
        tokens = sum(row.gained for row in rows)
        if not masked and not self._masked:  # behind a pass with masks, what was accepted is still to be read
            self._tokens += STEP * (tokens / len(rows) - self._tokens)
            self._columns += STEP * (columns / len(rows) - self._columns)
        self._masked = masked
        rate = max(tokens, len(rows) * self._tokens) / self.times.seconds(columns, masked=masked)
        self._price = max(self.times.slope(columns, masked=masked) * rate, CHEAPEST)
        for row in rows:
            reach, judged = self._reach.get((row.number, row.threshold)), self._judged.get(row.number, 0)
            if reach and judged:
                right = min(row.gained - 1, judged)
                reach.learn([1.0] * right + [0.0] * (judged - right))

    def _reach_of(self, row: Row) -> Reach:
        """s of this row, learnt anew once its τ moves."""
        place = row.number, row.threshold
        if place not in self._reach:
            self._reach[place] = reach = Reach(row.own.most_masks, STEP)
            if row.expectation is not None:
                row.expectation.reach = reach
        return self._reach[place]

    def _turn(self, waiting: int, taken: int, places: int) -> None:
        """Move τ a step once requests waited, or half of the places were free, in several passes."""
        sign = 1 if waiting else -1 if taken <= places / 2 else 0
        if sign:  # a short queue is empty now and then under any load: such a pass says nothing
            self._pressure = self._pressure + sign if sign * self._pressure > 0 else sign
        step = min(max(self._step + sign, 0), len(self._steps) - 1)
        if abs(self._pressure) >= PATIENCE and step != self._step:
            self._step, self._pressure = step, 0


def size_of(columns: int) -> int:
    """Numbers of columns that are timed together: each up to 4, then in steps of about a quarter."""
    step = max(1, 2 ** (columns.bit_length() - 3))
    return -(-columns // step) * step
