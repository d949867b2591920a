"""The columns of a pass of exact decoding: layouts, which say how many there are, and plans, made for each row.

Every column has a price λ, in tokens, and is there if it is expected to gain that much. With q_i the probability that
draft i is right if those before it are, and s_k that the first k masks of a group are:

    P_j = q_1 … q_j                  draft j is reached and right: it is verified while P_j ≥ λ
    π_j = P_j (1 - q_{j+1})          exactly j drafts are right (π_D = P_D for the last)
    π_j (s_k - λ) ≥ λ                mask k behind prefix j: a draft of the next pass, which pays for its column there

A draft is a mask's proposal or a copy of what followed the same tokens before: the likelier. q_i comes from the score
of the proposal or the length of the match, calibrated by how often drafts of that kind were right; s_k is a running
mean over the masks' proposals.

Copies are those of prompt lookup (Saxena 2023): the last `LONGEST` tokens, or as many of them as occurred before, are
looked up in prompt and response; the token behind their latest occurrence is the draft.

Layouts and plans change the number of passes, never the text. No torch here, and no model is asked.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple

from mars.records import Reads

Layout = Literal["none", "linear", "tree", "lookup", "quadratic"]
# Those of a fixed number of columns or a fixed most, from the fewest to the most.
FIXED_LAYOUTS: tuple[Layout, ...] = ("none", "linear", "quadratic")
TREES: tuple[Layout, ...] = ("tree", "lookup")  # those in which each row has a plan of its own

MOST_COLUMNS = 32  # of a row's plan
MOST_DRAFTS = 16  # of them
PRICE = 0.06  # of a column, where no times say what it costs
SOON, AGAIN = 8, 256  # passes after which the other choice is tried again: without masks soon, then each time later
MISSES = 6  # passes in a row in which no mask was taken, after which each further one halves what they are taken for
WORTH_MASKS = 0.4  # tokens that the masks of a pass must gain where there are copies: an adapter costs at any number

_EDGES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
_CURVE = 0.6  # proposals of score p are right about p ** _CURVE of the time, before any was seen
_LENGTHS = (2, 3, 4, 5, 7, 10, 16)  # of matches from which on copies are counted apart
_COPIED = (0.25, 0.5, 0.65, 0.7, 0.8, 0.85, 0.85, 0.98)  # how often copies are right, before any was seen
_WEIGHT = 12.0  # drafts that this counts for
_FORGET = 1 / 2000
_FIRST = 0.6  # the share of first masks that are right, and of later ones after them, before any was seen
_SCORES = len(_EDGES) + 1
# Proposals by score, those that a copy agrees with, other copies by length.
_KINDS = 2 * _SCORES + len(_COPIED)

LONGEST = 4  # tokens that are looked up for a copy
COMPARED = 16  # tokens that the length of a match counts at most


class Copies:
    """The tokens of a row so far, and where each run of up to `LONGEST` of them last continued, except with `never`."""

    def __init__(self, never: frozenset[int] = frozenset()) -> None:
        self.never = never
        self.tokens: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}

    def read(self, tokens: Iterable[int]) -> None:
        """Append these tokens."""
        for token in tokens:
            # Runs at the very end are not looked up: nothing is known to follow them.
            most = 0 if token in self.never else min(LONGEST, len(self.tokens))
            for length in range(1, most + 1):
                self._behind[tuple(self.tokens[-length:])] = len(self.tokens)
            self.tokens.append(token)

    def behind(self, run: tuple[int, ...]) -> int | None:
        """The place behind the latest occurrence of this run, None if there was none."""
        return self._behind.get(run)


class Follower:
    """Reads drafts behind the text, one by one, and says what a copy would be next.

    `token` is that copy, None where the last token was never seen before, and `length` how many tokens up to it
    match, at most `COMPARED`.
    """

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._drafts: list[int] = []
        self._place: int | None = None
        self.length = 0
        self._look_up()

    @property
    def token(self) -> int | None:
        """The copy; if the match reaches the end of the text, as in a loop, it goes on in the drafts."""
        token = None if self._place is None else self._at(self._place)
        return None if token in self._copies.never else token

    def read(self, draft: int) -> None:
        """Append this draft, the copy or another token."""
        follows = draft == self.token
        self._drafts.append(draft)
        if follows and self._place is not None:
            self._place += 1
            self.length = min(self.length + 1, COMPARED)
        else:
            self._look_up()

    def _at(self, place: int) -> int:
        """The token at this place of text and drafts; a negative one counts from their end."""
        known = len(self._copies.tokens)
        place += (known + len(self._drafts)) if place < 0 else 0
        return self._copies.tokens[place] if place < known else self._drafts[place - known]

    def _look_up(self) -> None:
        size = len(self._copies.tokens) + len(self._drafts)
        last = tuple(self._at(-back) for back in range(min(LONGEST, size), 0, -1))
        self._place, self.length = None, 0
        for start in range(len(last)):
            place = self._copies.behind(last[start:])
            if place is not None:
                self._place, self.length = place, len(last) - start
                break
        else:
            return
        while self.length < min(COMPARED, place) and self._at(place - 1 - self.length) == self._at(-1 - self.length):
            self.length += 1


class Draft(NamedTuple):
    """A token to verify, and how probable it is that it is right if those before it are.

    `kind` is the class in which it is counted, None if nothing is learnt from it. What it `reads` is a "copy" if no
    mask proposed it.
    """

    token_id: int
    odds: float
    kind: int | None = None
    reads: Reads = "draft"


NO_DRAFT = Draft(-1, 0.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The columns of a row in one pass: the root, its drafts, and `masks[j]` masks behind the first j drafts."""

    chain: tuple[Draft, ...]
    masks: tuple[int, ...]

    @staticmethod
    @cache
    def of(reads: tuple[Reads, ...], masks: tuple[int, ...]) -> Plan:
        """That of drafts which only the device knows; places for drafts may be "absent"."""
        return Plan(tuple(Draft(-1, 0.0, reads=one) for one in reads), masks)

    @property
    def drafts(self) -> int:
        """The number of drafts to verify."""
        return len(self.chain)

    @property
    def reads(self) -> tuple[Reads, ...]:
        """What the columns behind the root read."""
        masks: list[Reads] = ["mask"] * sum(self.masks)
        return (*(draft.reads for draft in self.chain), *masks)

    @property
    def columns(self) -> int:
        """The number of columns, the root included."""
        return 1 + self.drafts + sum(self.masks)

    @property
    def starts(self) -> list[int]:
        """The first column of each group, counted from the root."""
        return list(accumulate(self.masks[:-1], initial=1 + self.drafts))


ROOT = Plan((), (0,))
"""The root alone."""


@dataclass(slots=True)
class Reach:
    """s_k for each of the K `masks` of a group: how often the first k of them propose what is taken (`shares`)."""

    masks: int
    step: float = 1 / 30  # of the running mean
    shares: list[float] = field(init=False)  # at first what they are taken for before any was seen
    seen: float = math.inf  # passes that the mean is of, as long as there were few
    missed: int = 0  # passes in a row in which nothing was taken
    spending: int = 0  # passes in a row with masks; below 0 without
    patience: int = SOON  # passes without, after which masks are tried again
    found: bool = False  # whether one was right since the text began, or since they were last tried again

    def __post_init__(self) -> None:
        self.shares = [_FIRST**k for k in range(1, self.masks + 1)]

    def learn(self, odds: Sequence[float]) -> None:
        """Learn how probable the first masks' proposals were; the shares of further ones are scaled in proportion."""
        known = self.found or not any(odds)  # the first that is right says nothing of further ones
        self.missed, self.found = (0, True) if any(odds) else (self.missed + 1, self.found)
        step = 1 / 2 if self.missed > MISSES else max(self.step, 1 / (self.seen + 2))
        before, scale, self.seen = 1.0, 1.0, self.seen + 1
        for k in range(self.masks):
            if k < len(odds):
                before *= odds[k]
                changed = self.shares[k] + step * (before - self.shares[k])
                scale, self.shares[k] = changed / self.shares[k] if known else 1.0, changed
            else:
                self.shares[k] = min(self.shares[k] * scale, self.shares[k - 1])

    def due(self, spent: bool) -> bool:
        """Count a pass. True when masks are to be tried anew: after `SOON` passes without, then after twice as many."""
        self.spending = max(self.spending, 0) + 1 if spent else min(self.spending, 0) - 1
        if self.spending > SOON:
            self.patience = SOON
        if -self.spending < self.patience:
            return False
        self.spending, self.patience = 0, min(2 * self.patience, AGAIN)
        self.shares, self.seen, self.missed, self.found = Reach(self.masks).shares, 0.0, MISSES - 2, False
        return True

    def count(self, price: float) -> int:
        """The number of masks that pay for their columns, one now and another for a proposal that is taken."""
        return sum(share >= price * (1 + share) for share in self.shares)


@dataclass(slots=True)
class Expectation:
    """The shares of drafts that turn out right, learnt from those that were verified.

    `right` and `seen` count them by kind; `reach` has s_k.
    """

    masks: int
    right: list[float] = field(default_factory=lambda: [0.0] * _KINDS)
    seen: list[float] = field(default_factory=lambda: [0.0] * _KINDS)
    reach: Reach = field(init=False)

    def __post_init__(self) -> None:
        self.reach = Reach(self.masks)

    def proposal(self, token_id: int, score: float) -> Draft:
        """A draft from a mask that proposed it with this score, a probability."""
        return self._draft(token_id, bisect_right(_EDGES, score), score**_CURVE)

    def copy(self, token_id: int, length: int) -> Draft:
        """A draft that is a copy behind a match of so many tokens."""
        kind = bisect_right(_LENGTHS, length)
        return self._draft(token_id, 2 * _SCORES + kind, _COPIED[kind], "copy")

    def agreed(self, proposal: Draft, copy: Draft) -> Draft:
        """A draft that a mask proposed and that is also the copy."""
        both = 1 - (1 - proposal.odds) * (1 - copy.odds)
        if proposal.kind is None:
            return proposal._replace(odds=both)
        return self._draft(proposal.token_id, proposal.kind + _SCORES, both)

    def _draft(self, token_id: int, kind: int, usual: float, reads: Reads = "draft") -> Draft:
        odds = (self.right[kind] + _WEIGHT * usual) / (self.seen[kind] + _WEIGHT)
        return Draft(token_id, odds, kind, reads)

    def verified(self, chain: Sequence[Draft], right: int) -> None:
        """Learn from a row's drafts that a pass verified, in order, and how many of them were right."""
        keep = 1 - _FORGET
        for number, draft in enumerate(chain[: right + 1]):
            if draft.kind is not None:
                self.right[draft.kind] = keep * self.right[draft.kind] + (number < right)
                self.seen[draft.kind] = keep * self.seen[draft.kind] + 1

    def plan(
        self,
        proposals: Sequence[Draft],
        price: float,
        room: int,
        copies: Copies | None = None,
        most: int = MOST_DRAFTS,
        *,
        least: float = WORTH_MASKS,
    ) -> Plan:
        """The columns that pay at this price, with at most so many drafts; the row may still write `room` tokens.

        `proposals` are those of the masks behind the text, from left to right. Beside `copies` masks must gain `least`
        tokens.
        """
        follower = None if copies is None else Follower(copies)
        drafts: Iterator[Draft] = iter(proposals) if follower is None else self._mixed(proposals, follower)
        chain: list[Draft] = []
        reached = [1.0]
        for draft in drafts:
            after = reached[-1] * draft.odds
            if after < price or len(chain) == min(most, room - 1):
                break
            chain.append(draft)
            reached.append(after)
        # Where a copy that is surer than a mask's proposal continues the text, the masks would not be used.
        shares = self.reach.shares
        copied = follower is not None and self.masks > 0 and self._next(follower).odds >= shares[0]
        least = 0.0 if follower is None else least
        while True:
            plan = _at(chain, reached, shares, price, room, ends_in_copy=copied, least=least)
            if plan.columns <= MOST_COLUMNS:
                return plan
            price *= 1.25

    def _mixed(self, proposals: Sequence[Draft], follower: Follower) -> Iterator[Draft]:
        """The likeliest draft at each place: a copy, or the mask's proposal if all before it were taken."""
        number = 0
        while True:
            proposal = proposals[number] if 0 <= number < len(proposals) else None
            copy = self._next(follower)
            if proposal is None:
                taken = copy
            elif proposal.token_id == copy.token_id:
                taken = self.agreed(proposal, copy)
            else:
                taken = max(proposal, copy, key=lambda draft: draft.odds)
            if not taken.odds:
                return
            yield taken
            follower.read(taken.token_id)
            agrees = proposal is not None and taken.token_id == proposal.token_id
            number = number + 1 if agrees else len(proposals)

    def _next(self, follower: Follower) -> Draft:
        """The copy that a follower offers; a draft of odds 0 if it has none."""
        return NO_DRAFT if follower.token is None else self.copy(follower.token, follower.length)


def _at(
    chain: Sequence[Draft],
    reached: Sequence[float],
    shares: Sequence[float],
    price: float,
    room: int,
    *,
    ends_in_copy: bool,
    least: float,
) -> Plan:
    """The columns that pay at this price: `reached` has P_j, `shares` s_k."""
    drafts = next((number for number, after in enumerate(reached[1:]) if after < price), len(chain))
    behind = [*reached[1 : drafts + 1], 0.0]
    leaves = [here - after for here, after in zip(reached[: drafts + 1], behind, strict=True)]
    masks = [
        sum(leave * (share - price) >= price for share in shares[: max(0, room - number - 1)])
        for number, leave in enumerate(leaves)
    ]
    if ends_in_copy and drafts == len(chain):
        masks[-1] = 0
    gained = sum(leave * sum(shares[:count]) for leave, count in zip(leaves, masks, strict=True))
    if gained < least:
        masks = [0] * len(masks)
    return Plan(tuple(chain[:drafts]), tuple(masks))
