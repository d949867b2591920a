"""Chooses the masks and drafts of each row in the next pass, by the times of passes, the gains of rows, and the queue.

A pass has one choice, such as a layout of exact decoding, and the rows that spend it; the others have drafts without
masks where that pays (`COPY`: copies of the text and phrases), or write one token if there are none. For each choice c
the controller knows G, the tokens that a row gains in a pass, and q, its columns; for all choices T(Q), the seconds of
a pass of Q columns. All are measured while text is written. T is different for passes with masks (`PassTimes`), in
whose columns an adapter computes. A row that has gained f times as many further tokens as others so far is expected to
go on so, whatever it spends: where a text repeats nothing, copies gain as little as trees with copies do. Of n rows,
let the k of largest f spend c, and the others the base b:

    goodput(c, k) = (n + Σ_n f (G_b - 1) + Σ_k f (G_c - G_b)) / (s T(n q_b + k (q_c - q_b)))    tokens a second

The factor s is small if plans of this choice often have no masks: it is the mean of T for passes as they were, over T
for passes with masks. The seconds themselves would count interruptions, which T does not, against choices with masks
alone. Rows with plans of their own (`TREES`) share one window, whatever each spends. Other layouts are for all rows or
none, except in trials: rows of two windows are judged separately, which takes time.
With more rows the columns of plans cost more, and plans have fewer: so their G, q and s are kept for each load. Each
column pays for its price, so copies need no trial. Passes that read prompts in between take the same time in all,
whatever is chosen, and do not count. The largest goodput wins, but a change must promise more than `MARGIN`, and then
stays for `HOLD` passes. The texts are the same whatever is chosen.

With `tpot`, the seconds that a further token may take by promise, columns are cheaper for rows that are nearly late,
and dearer for those beside them (mars/decoding/promise.py).

Only with `thresholds`, the policy `knob`, may rows be decoded with a threshold, if their request leaves that open:
while requests wait for a place, it falls along the thresholds, and rises again, step by step. While one is in force,
exact decoding and what the thresholds are for, relaxed verification (mars/decoding/relaxed.py) or two widths of
windows, take turns of some passes, and what writes most has most of them (`Turns`). Relaxed or exact, rows spend what
pays. A window has its first turns with the lowest threshold: what writes less than exact decoding with that does so
with all others, which are then not tried. A pool that was empty begins with exact decoding.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mars.config import DecodingSettings
from mars.decoding.costs import TRIALS, Kind
from mars.decoding.experience import (
    BASES,
    COPY,
    EXACT,
    HOLD,
    LOOKUP,
    NOTHING,
    PRIOR,
    RETRY,
    WINDOWS,
    Account,
    Choice,
    Experience,
    Goodput,
    Known,
)
from mars.decoding.method import Method, Row
from mars.decoding.promise import Promise
from mars.decoding.self_speculative import SelfSpeculative, uncontrolled
from mars.decoding.trees import (
    EXPECTED,
    MOST_COLUMNS,
    PRICE,
    TREES,
    most_gained,
    reach_of,
    usual_columns,
)
from mars.decoding.turns import Turns
from mars.engine import Engine

REVIEW = 3  # passes after which rows are ranked anew, unless a row comes that cannot spend what all others do
LONGEST_RETRY = 1200
TRIED_BY = 2  # rows that spend what is tried, at most
HURRY = 4  # so many times later while prompts are read: a trial makes their first tokens wait
WORTH_A_TRY = 0.6  # the part of the best goodput that it must promise
WORTH_ANOTHER = 0.75  # the same of what was tried before
MARGIN = 0.02  # by which another choice must be better
DOUBT = 0.05  # by which one token each must be better than copies: those cost nothing where a text repeats nothing
MOST_UNKNOWN = 0.5  # the highest price of a column before any was timed
PATIENCE = 20  # passes in which requests wait, or places are free, before the threshold moves


_EXACTLY = None, None  # exact decoding's place among windows and thresholds; relaxed, it has the lowest threshold
_EXPERIENCES: weakref.WeakKeyDictionary[Engine, Experience] = weakref.WeakKeyDictionary()


def method_of(engine: Engine, settings: DecodingSettings) -> SelfSpeculative:
    """Exact decoding as these settings ask for it: with layout `auto` a controller chooses what each row spends.

    Raises:
        ValueError: the model was not trained to fill masks, or there is no room for a draft.
    """
    return replace(uncontrolled(engine, settings), chosen_by=controller_of if settings.layout == "auto" else None)


def controller_of(
    engine: Engine, thresholds: Sequence[float] = (), *, relaxed: bool = False, tpot: float | None = None
) -> Controller:
    """A controller for a pool of this engine; it shares what all pools of the engine have learned."""
    experience = _EXPERIENCES.setdefault(engine, Experience())
    return Controller(thresholds, experience, relaxed=relaxed, together=engine.static_shapes, tpot=tpot)


class Controller:
    """Decides for the rows of one pool.

    `thresholds` descend; without any the policy is `exact`. They are those of windows or, with `relaxed`, of rows whose
    own decoder is `relaxed`.

    With `together` all rows spend or none: where passes have static shapes, a row is as wide as the widest.
    """

    def __init__(
        self,
        thresholds: Sequence[float] = (),
        experience: Experience | None = None,
        *,
        relaxed: bool = False,
        together: bool = False,
        tpot: float | None = None,
    ) -> None:
        self.choice = NOTHING
        self._seen = experience or Experience()
        self._together = together
        self._steps: tuple[float | None, ...] = (None, *thresholds)
        self._relaxed = relaxed
        self._step = 0
        self._pressure = 0
        self._drafts = 0
        self._planned = False
        self._load = 0
        self._base = NOTHING
        self._accounts: dict[int, Account] = {}
        self._expected = Goodput(0.0, 0.0, set())
        self._changed = self._seen.now - HOLD
        self._trying = False
        self._window: Choice | None = None
        self._tried_at: float | None = None  # the threshold of its turn
        self._prices: dict[bool, float] = {}  # in this pass
        self._turns = Turns(self._seen.speeds)
        self._promise = Promise(tpot)

    @property
    def threshold(self) -> float | None:
        """The threshold in force for rows that leave it open; None while they are decoded exactly."""
        return self._steps[self._step]

    def ways(self, own: Method, threshold: float | None) -> list[tuple[Method, float | None]]:
        """The methods, each with one of its thresholds, that rows of this method may be given; itself if it is fixed.

        Trees are left out, which have no static shapes.
        """
        if not isinstance(own, SelfSpeculative) or own.layout is not None:
            return [(own, threshold)]
        spent = [choice for choice in EXACT if choice.layout not in TREES]
        lowest = self._steps[-1]
        relaxing = (lowest if self._relaxed else threshold) if own.uses_threshold else None
        found = [(choice, one) for choice in spent for one in dict.fromkeys((None, relaxing))]
        found += [(choice, lowest) for choice in WINDOWS if lowest is not None and not self._relaxed]
        able = [(choice, one) for choice, one in found if choice == NOTHING or reach_of(choice.layout, own.drafts)]
        return [(choice.method(own, self.price), one) for choice, one in able]

    def plan(self, rows: Sequence[Row], *, reading: int, waiting: int, places: int) -> list[Row]:
        """Set the method for the next pass of those of `rows`, which write, whose own is exact decoding, layout auto.

        `reading` counts requests whose prompts are being read, `waiting` those without one of the `places`.

        Returns: the rows that need `Method.begin`: past their last token there are no drafts.
        """
        self._prices.clear()
        self._promise.weigh(rows)
        with self._seen.lock:
            moved = self._watch(waiting, len(rows) + reading, places)
            accounts = {row.number: account for row in rows if (account := self._account(row)) is not None}
            changed = moved or not self._goes_on(accounts)
            self._accounts = accounts
            steered = [row for row in rows if row.number in accounts]
            if not steered:
                return []
            loose = {row.number for row in steered if row.control.free}
            before, self._window = self._window, self._take_turns(loose) if loose else None
            if (window := self._window) is not None:
                return [row for row in steered if self._give(row, window if row.number in loose else self._base)]
            self._seen.now += 1
            if changed or before is not None or self._seen.now % REVIEW == 0:
                self._expected = self._choose(steered, len(rows) - len(steered), hurry=reading > 0)
            spending = self._expected.spending
            rest = self.choice if self.choice in BASES else self._base
            return [row for row in steered if self._give(row, self.choice if row.number in spending else rest)]

    def _goes_on(self, accounts: Mapping[int, Account]) -> bool:
        """Whether the next pass can be as chosen: rows that are new spend what all others do, and are noted so."""
        before, spending = self._accounts.keys(), self._expected.spending
        new = accounts.keys() - before
        methods = [accounts[number].own for number in new]
        able = all(own.drafts == self._drafts and bool(own.expectation) == self._planned for own in methods)
        if not before or not able or (new and spending and not before <= spending):
            return False
        spending |= new if spending else set()
        return True

    def _take_turns(self, loose: Collection[int]) -> Choice | None:
        """The window of these rows if it is its turn; None if it is exact decoding's, or no threshold is in force."""
        self._tried_at = None
        if self.threshold is None:
            self._turns.end()
            return None
        lowest = self._steps[-1]
        choices: list[tuple[Choice | None, float | None]] = [_EXACTLY]
        if self._relaxed:
            choices.append((None, lowest))
        else:
            drafts = min(self._accounts[number].own.drafts for number in loose)
            for easiest in ((window, lowest) for window in WINDOWS if reach_of(window.layout, drafts)):
                if not self._turns.compared(easiest, [_EXACTLY]):
                    choices.append(easiest)
                elif self._turns.promises(easiest, _EXACTLY):
                    choices.append((easiest[0], self.threshold))
        window, taken = self._turns.take(choices)
        self._tried_at = self.threshold if self._relaxed and taken is not None else taken
        return window

    def restart(self) -> None:
        """Begin with exact decoding: the load that moved the threshold has ended."""
        with self._seen.lock:
            self._step = self._pressure = 0

    def observe(self, rows: Sequence[Row], columns: Mapping[int, int], seconds: float | None) -> None:
        """Learn from the pass that was planned; `columns` are the positions computed for each row, by its number.

        `seconds` are None if they say nothing of later passes (`Rows.warming`): then it counts as no trial, either.
        """
        with self._seen.lock:
            pairs = [(row, account) for row in rows if (account := self._accounts.get(row.number))]
            if self.threshold is not None:
                self._turns.passed(sum(row.gained for row in rows) * self._usual(len(rows)), seconds)
            if not pairs or self._window is not None:
                return
            spent = [(row, account) for row, account in pairs if account.spends not in BASES]
            known = self._of(self.choice if spent or self.choice in BASES else self._base)
            known.passes += seconds is not None
            known.last = self._seen.now
            kind = self.choice.kind if spent else "plain"
            masked = any(row.plan is None or any(row.plan.masks) for row, _ in spent)
            beside = any(row.threshold is not None for row in rows if row.number not in self._accounts)  # with masks
            if seconds is not None:
                was: Kind = kind if masked else "line" if beside else "plain"
                self._time(known, sum(columns.values()), seconds, kind, was)
            for choice in {self._base, self.choice}:
                rows_of_it = [(row, account) for row, account in pairs if account.spends == choice]
                settled = [(row, account) for row, account in rows_of_it if account.before == choice or choice in BASES]
                if settled:  # rows that gain more than others say less of what others would
                    tokens = sum(row.gained - 1 for row, _ in settled)
                    weight = sum(1.0 if choice in BASES else account.factor for _, account in settled)
                    width = sum(columns[row.number] for row, _ in settled) / len(settled)
                    self._of(choice).learn(tokens, weight, width)
            for row, account in pairs:
                account.passed(row.gained, known.gain)

    def _time(self, known: Known, columns: int, seconds: float, kind: Kind, was: Kind) -> None:
        """Learn what a pass took; `kind` is that of the choice, `was` that of the pass, which may have no masks."""
        self._seen.times.took(columns, seconds, was)
        if was == kind:
            known.timed(1.0, 1.0)
        elif known.passes > TRIALS:
            usual, with_masks = (self._seen.times.seconds(columns, one) for one in (was, kind))
            if usual and with_masks:
                known.timed(usual, with_masks)

    def _usual(self, rows: int) -> float:
        """The weight of a token in a turn: a row's share of the seconds in which so many rows write one token each."""
        return (self._seen.times.seconds(rows, "plain") or 1.0) / max(rows, 1)

    def passed(self, rows: Sequence[Row], seconds: float) -> None:
        """Count the time of a pass, that of prompts included; `rows` are all in the pool."""
        self._promise.passed(rows, seconds)

    def price(self, row: Row, *, masked: bool) -> float:
        """The price of one more column of this row: the tokens that all would write in its time, as they weigh."""
        if masked not in self._prices:
            found = self._seen.times.price(self._expected.columns, self._expected.rate, "tree" if masked else "plain")
            usual = min(PRICE * max(len(self._accounts), 1), MOST_UNKNOWN)
            self._prices[masked] = found or usual
        return self._promise.price(row, self._prices[masked])

    def _choose(self, rows: Sequence[Row], others: int, *, hurry: bool) -> Goodput:
        """Choose for this pass; `others` is the number of its rows that are not steered."""
        self._drafts = min(self._accounts[row.number].own.drafts for row in rows)
        self._load = (len(rows) + others - 1).bit_length()  # 0 for 1 row, 1 for 2, 2 for up to 4, …: plans are alike
        ranked = sorted(rows, key=lambda row: self._accounts[row.number].claim, reverse=True)
        trees = self._planned = all(self._accounts[row.number].own.expectation for row in rows)
        found = {choice: self._best(choice, ranked, others) for choice in (BASES if trees else BASES[:1])}
        self._base = NOTHING
        if trees and (self._of(COPY).new or found[COPY].rate * (1 + DOUBT) > found[NOTHING].rate):
            self._base = COPY  # unless copies are known to be slower than one token each
            if not self._of(NOTHING).unsure:  # its passes are the narrowest, whose time must be known
                del found[NOTHING]
        learned = not self._of(self._base).new
        for choice in EXACT[len(BASES) :] if learned else ():
            if not reach_of(choice.layout, self._drafts) or (choice == LOOKUP and not trees):
                continue
            found[choice] = self._best(choice, ranked, others)
            most = max(goodput.rate for goodput in found.values())
            if self._of(choice).new and found[choice].rate > WORTH_A_TRY * most:
                break  # the time of wider choices is guessed from those with fewer columns
        if self.choice not in found or not (learned or self.choice == self._base):
            self._change(self._base)
        if self._seen.now - self._changed >= HOLD:
            self._reconsider(found, hurry=hurry)
        if self._trying:
            few = ranked[: None if self._together else TRIED_BY]
            return self._best(self.choice, few, others + len(rows) - len(few))
        return found[self.choice]

    def _reconsider(self, found: Mapping[Choice, Goodput], *, hurry: bool) -> None:
        """Take the most promising choice; now and then, less often in a `hurry`, try a less promising one again."""
        best = max(found, key=lambda choice: found[choice].rate)
        most = found[best].rate
        others = {choice: goodput.rate / most for choice, goodput in found.items() if choice != self.choice}
        least = {choice: WORTH_A_TRY if self._of(choice).unsure else WORTH_ANOTHER for choice in others}
        worthy = [choice for choice, part in others.items() if part > least[choice]]
        oldest = min(worthy, key=lambda choice: self._of(choice).last, default=self.choice)
        unsure = self._of(oldest).unsure
        since = self._seen.now - max(self._of(oldest).last, self._seen.tried)
        self._trying = False
        due = since > self._seen.patience * (HURRY if hurry else 1)
        if oldest != self.choice and (due or (unsure and not hurry)):
            self._seen.tried = self._seen.now
            if not unsure:
                self._seen.patience = min(2 * self._seen.patience, LONGEST_RETRY)
            self._change(oldest)
            self._trying = oldest not in BASES
        elif most > found[self.choice].rate * (1 + MARGIN):
            settled = self._seen.settled.get(self._load, best)  # of this load: at another one another choice is best
            if best != settled and not {best, settled} <= set(BASES):
                self._seen.patience = RETRY
            self._seen.settled[self._load] = best
            self._change(best)
            self._trying = best not in BASES and self._of(best).new

    def _change(self, choice: Choice) -> None:
        self.choice, self._changed, self._trying = choice, self._seen.now, False

    def _best(self, choice: Choice, rows: Sequence[Row], others: int) -> Goodput:
        """The largest goodput of this choice for the ranked `rows`, while `others` write one token each."""
        known = self._expect(choice)
        base = known if choice in BASES else self._expect(self._base)
        most = most_gained(self._base.layout if choice not in BASES else choice.layout, self._drafts)
        copied = [min(self._accounts[row.number].factor * (base.gain - 1), most) for row in rows]
        tokens = others + len(rows) + sum(copied)
        columns = others + len(rows) * base.columns
        if choice in BASES:
            return Goodput(self._rate(tokens, columns, 1.0, "plain"), columns, set())
        found: list[tuple[float, float]] = []
        for row, instead in zip(rows, copied, strict=True):
            account = self._accounts[row.number]
            tokens += min(account.factor * (known.gain - 1), most_gained(choice.layout, account.own.drafts)) - instead
            columns += known.columns - base.columns
            found.append((tokens, columns))
        counts = range(1, len(rows) + 1)
        if self._together or choice.layout not in TREES:
            counts = counts[-1:]
        rates = {count: self._rate(*found[count - 1], known.slow, choice.kind) for count in counts}
        count = max(counts, key=rates.__getitem__)
        return Goodput(rates[count], found[count - 1][1], {row.number for row in rows[:count]})

    def _rate(self, tokens: float, columns: float, slow: float, kind: Kind) -> float:
        """The tokens a second of passes of so many tokens and columns; as if in 1 second before anything is known."""
        seconds = self._seen.times.seconds(columns, kind)
        return tokens if seconds is None else tokens / max(seconds * slow, 1e-9)

    def _key(self, choice: Choice) -> tuple[Choice, int, int]:
        """The key of `known`: the choice, the load of this pass if rows have plans, and the number of drafts."""
        return choice, self._load if choice.layout in TREES else 0, self._drafts

    def _of(self, choice: Choice) -> Known:
        """What is known of a choice at the load of this pass."""
        return self._seen.known[self._key(choice)]

    def _expect(self, choice: Choice) -> Known:
        """As `_of`; until it has been tried here, an estimate from other loads, or else other choices."""
        _, here, drafts = key = self._key(choice)
        known = self._seen.known.setdefault(key, Known(1.0, usual_columns(choice.layout, drafts)))
        if known.seen > PRIOR:
            return known
        seen = {
            (tried, at): other
            for (tried, at, of), other in self._seen.known.items()
            if other.seen > PRIOR and of == drafts
        }
        near = min((at for tried, at in seen if tried == choice), key=lambda at: abs(at - here), default=None)
        if near is not None:
            other, part = seen[choice, near], 2.0 ** (near - here)
            known.columns = min(1 + part * (other.columns - 1), MOST_COLUMNS)
            known.gain = 1 + min(part * (other.gain - 1), most_gained(choice.layout, drafts))
            known.slow = other.slow
            return known
        found = [
            (other.gain - 1) / (EXPECTED[tried.layout] - 1)
            for (tried, _), other in seen.items()
            if tried not in BASES and choice not in BASES
        ]
        further = (EXPECTED[choice.layout] - 1) * max(found, default=1.0)
        known.gain = 1 + min(further, most_gained(choice.layout, drafts))
        return known

    def _account(self, row: Row) -> Account | None:
        """The row's account; None for rows that are left alone."""
        if row.number in self._accounts:
            return self._accounts[row.number]
        if isinstance(row.method, SelfSpeculative) and row.method.layout is None:
            return Account(row.method)
        return None

    def _give(self, row: Row, choice: Choice) -> bool:
        """Let the row spend this choice; returns whether it leaves a sliding window, which has left no drafts."""
        account = self._accounts[row.number]
        if row.control.free:
            row.control.threshold = self._tried_at
        if choice == account.spends and row.method is not account.own:
            return False
        left_window, account.spends = account.spends.window, choice
        row.method, row.layout = choice.method(account.own, self.price), choice.layout
        row.plan = None if choice.window else row.plan
        return left_window and not choice.window

    def _watch(self, waiting: int, taken: int, places: int) -> bool:
        """Move the threshold a step once requests waited, or half of the places were free, in several passes.

        Returns: whether the threshold moved.
        """
        sign = 1 if waiting else -1 if taken <= places / 2 else 0
        if sign:  # a short queue is empty now and then under any load: such a pass says nothing
            self._pressure = self._pressure + sign if sign * self._pressure > 0 else sign
        step = min(max(self._step + sign, 0), len(self._steps) - 1)
        if abs(self._pressure) < PATIENCE or step == self._step:
            return False
        self._step, self._pressure = step, 0
        return True
