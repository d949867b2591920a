"""Which of a few choices writes most: they take turns of some passes, and what rows write is measured.

Nothing is assumed of the times of passes or of what rows gain. So choices can be told apart that differ by a few
percent, less than a model of both is wrong by; but a turn is for all rows, so that a bad choice costs more to measure
than by a trial of two rows. A choice that looked slower has another turn after a while: the further it was behind, the
later.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)

TURN = 24  # passes of a turn
SETTLING = 2  # the first passes of a turn, which do not count: at first there are no drafts to verify
FIRST_TURNS = 2  # turns of each choice before they are compared
FAR_BEHIND = 0.8  # of the best speed: a choice whose first turn was slower than that is compared after it
KEPT = 0.9  # what an earlier turn counts once another one has ended
EXPLORATION_BONUS = 0.02  # by which a choice may be faster than measured, times the root of the turns since its last
INTERRUPTED = 2.0  # times the median: passes that take longer were interrupted, or the first of their shape


@dataclass(slots=True)
class Speed:
    """The tokens and seconds of a choice, of which later ones count more, its turns, and the number of the last one."""

    tokens: float = 0.0
    seconds: float = 0.0
    turns: int = 0
    last: int = 0

    def add(self, passes: Sequence[tuple[float, float]], turn: int) -> None:
        """Add a turn: the tokens and seconds of its passes."""
        usual = median(seconds for _, seconds in passes)
        counted = [(tokens, seconds) for tokens, seconds in passes if seconds <= INTERRUPTED * usual]
        self.tokens = KEPT * self.tokens + sum(tokens for tokens, _ in counted)
        self.seconds = KEPT * self.seconds + sum(seconds for _, seconds in counted)
        self.turns += 1
        self.last = turn

    @property
    def rate(self) -> float:
        """The tokens a second that it wrote."""
        return self.tokens / max(self.seconds, 1e-9)

    def optimistic_rate(self, turn: int) -> float:
        """The tokens a second that it may write by now."""
        return self.rate * (1 + EXPLORATION_BONUS * (turn - self.last) ** 0.5)


@dataclass(slots=True)
class Turns(Generic[C]):
    """The turns of choices, and what was written in them: others that are given the same `speeds` know it too."""

    speeds: dict[C, Speed] = field(default_factory=dict)
    _now: C | None = None
    _passes: int = 0
    _found: list[tuple[float, float]] = field(default_factory=list)

    def take(self, choices: Sequence[C]) -> C:
        """The choice for the next pass, one of these: the same until its turn ends, or until it is not among them."""
        if self._now is not None and self._now in choices and self._passes < TURN:
            return self._now
        self._passes = 0
        self._found.clear()
        self._now = chosen = self._next(choices)
        return chosen

    def passed(self, tokens: float, seconds: float | None) -> None:
        """Count a pass of this turn; its `tokens` may be weighed, so that turns of many rows and of few are comparable.

        `seconds` are None if they say nothing of later passes.
        """
        if self._now is None:
            return
        self._passes += 1
        if seconds is not None and self._passes > SETTLING:
            self._found.append((tokens, seconds))
        if self._passes == TURN and self._found:
            self.speeds[self._now].add(self._found, self._turn)

    def end(self) -> None:
        """Let no choice have a turn; what was written in one that is not over does not count."""
        self._now = None

    def compared(self, choice: C, rivals: Sequence[C]) -> bool:
        """Whether it had enough turns to be compared with these."""
        speed = self.speeds.get(choice, Speed())
        best = max((self.speeds[rival].rate for rival in rivals if rival in self.speeds), default=0.0)
        return speed.turns >= FIRST_TURNS or (speed.turns > 0 and speed.rate < FAR_BEHIND * best)

    def promises(self, choice: C, rival: C) -> bool:
        """Whether it may write as much as another one by now; both have been compared."""
        return self.speeds[choice].optimistic_rate(self._turn) >= self.speeds[rival].rate

    @property
    def _turn(self) -> int:
        """The number of the turn that goes on."""
        return 1 + sum(speed.turns for speed in self.speeds.values())

    def _next(self, choices: Sequence[C]) -> C:
        speeds = {choice: self.speeds.setdefault(choice, Speed()) for choice in choices}
        new = [choice for choice in choices if not self.compared(choice, choices)]
        if new:
            return min(new, key=lambda choice: speeds[choice].turns)
        return max(choices, key=lambda choice: speeds[choice].optimistic_rate(self._turn))
