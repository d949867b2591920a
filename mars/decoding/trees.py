"""Plans the columns of a pass, drafts to verify and masks: each that gains more tokens than it costs.

A square of masks (the quadratic layout) spends as many columns behind a prefix that is hardly ever the accepted one as
behind the likely one. Here every column has a price λ, in tokens, and is there if it is expected to gain that much.
With q_i the probability that draft i is right if those before it are, and s_k that the first k masks of a group are:

    P_j = q_1 … q_j                  draft j is reached and right: it is verified while P_j ≥ λ
    π_j = P_j (1 - q_{j+1})          exactly j drafts are right (π_D = P_D for the last)
    π_j (s_k - λ) ≥ λ                mask k behind prefix j: a draft of the next pass, which pays for its column there

q_i comes from the score of the proposal, calibrated by how often proposals of such a score were right; s_k is a running
mean of what the masks proposed. The plan changes the number of passes, never the text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

MOST_COLUMNS = 32  # of a row's plan
PRICE = 0.06  # of a column, where no times say what it costs

_EDGES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
_CURVE = 0.6  # proposals of score p are right about p ** _CURVE of the time, before any was seen
_WEIGHT = 12.0  # drafts that this counts for
_FORGET = 1 / 2000
_FIRST = 0.6  # the share of first masks that are right, and of later ones after them, before any was seen
_STEP = 1 / 30  # of the running mean


@dataclass(frozen=True, slots=True)
class Plan:
    """The columns of a row in one pass: the root, its drafts, and `masks[j]` masks behind the first j drafts.

    `scores` are those of the drafts.
    """

    scores: tuple[float, ...]
    masks: tuple[int, ...]

    @property
    def drafts(self) -> int:
        """The number of drafts to verify."""
        return len(self.scores)

    @property
    def columns(self) -> int:
        """The number of columns, the root included."""
        return 1 + self.drafts + sum(self.masks)

    @property
    def starts(self) -> list[int]:
        """The first column of each group, counted from the root."""
        return list(accumulate(self.masks[:-1], initial=1 + self.drafts))


@dataclass(slots=True)
class Expectation:
    """How often drafts turn out right, learnt from those that were verified.

    `right` and `seen` count them by score; `reached` is s_k for each of the K masks of a group.
    """

    masks: int
    right: list[float] = field(default_factory=lambda: [0.0] * (len(_EDGES) + 1))
    seen: list[float] = field(default_factory=lambda: [0.0] * (len(_EDGES) + 1))
    reached: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.reached = [_FIRST**k for k in range(1, self.masks + 1)]

    def odds(self, score: float) -> float:
        """How probable it is that a draft of this score, a probability, is right if those before it are."""
        found = bisect_right(_EDGES, score)
        return (self.right[found] + _WEIGHT * score**_CURVE) / (self.seen[found] + _WEIGHT)

    def usual(self, number: int) -> float:
        """The same for draft `number`, counted from 0, of which no score is known."""
        return self.reached[number] / (self.reached[number - 1] if number else 1.0)

    def verified(self, scores: Sequence[float], right: int) -> None:
        """Learn from a row's drafts that a pass verified, in order: their scores, and how many were right."""
        for number, score in enumerate(scores[: right + 1]):
            found = bisect_right(_EDGES, score)
            keep = 1 - _FORGET
            self.right[found] = keep * self.right[found] + (number < right)
            self.seen[found] = keep * self.seen[found] + 1

    def proposed(self, odds: Sequence[float]) -> None:
        """Learn from the masks of a group how far drafts get; longer groups are scaled along."""
        before, scale = 1.0, 1.0
        for k in range(self.masks):
            if k < len(odds):
                before *= odds[k]
                changed = self.reached[k] + _STEP * (before - self.reached[k])
                scale, self.reached[k] = changed / self.reached[k], changed
            else:
                self.reached[k] = min(self.reached[k] * scale, self.reached[k - 1])

    def plan(self, scores: Sequence[float], odds: Sequence[float], price: float, room: int) -> Plan:
        """The columns that pay at this price; drafts have these odds, and the row may still write `room` tokens."""
        while (found := self._at(scores, odds, price, room)).columns > MOST_COLUMNS:
            price *= 1.25
        return found

    def _at(self, scores: Sequence[float], odds: Sequence[float], price: float, room: int) -> Plan:
        reached = [1.0]
        for after in accumulate(odds[: room - 1], mul):
            if after < price:
                break
            reached.append(after)
        leaves = [here - after for here, after in zip(reached, [*reached[1:], 0.0], strict=True)]
        masks = (
            sum(leave * (share - price) >= price for share in self.reached[: max(0, room - number - 1)])
            for number, leave in enumerate(leaves)
        )
        return Plan(tuple(scores[: len(reached) - 1]), tuple(masks))
