"""Phrases: runs of tokens that a model often writes, each with the token that it most often writes next.

They are drafts that need no mask and no earlier place in the text: a static table of n-grams, as in the lookup decoding
of llama.cpp. Which drafts turn out right is learnt while decoding (mars/decoding/trees.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LONGEST = 4  # tokens of a run
LEAST, LEAST_ALONE = 2, 8  # times that a run was seen; the second is for runs of one token
LEAST_NEXT, LEAST_SHARE = 2, 0.2  # times that its next token was seen behind it, and of all times the share
ALIKE = 0.1  # a longer run is left out if a shorter one says the same, and its share differs by less

Run = tuple[int, ...]


class Next(NamedTuple):
    """The token that most often follows a run: in this `share` of the `seen` times that the run was counted."""

    token_id: int
    share: float
    seen: int


@dataclass(frozen=True, slots=True)
class Phrases:
    """What is known to follow each run, of 1 to `LONGEST` tokens."""

    behind: Mapping[Run, Next]

    @property
    def largest(self) -> int:
        """The largest token id that may follow; -1 without any."""
        return max((found.token_id for found in self.behind.values()), default=-1)

    def after(self, last: Run) -> Next | None:
        """What follows the longest known run at the end of these tokens; None if none is known."""
        for start in range(max(0, len(last) - LONGEST), len(last)):
            found = self.behind.get(last[start:])
            if found is not None:
                return found
        return None


def count_phrases(texts: Iterable[tuple[Sequence[int], int, int]]) -> Phrases:
    """The phrases of answers, each given as token ids and the span [first, end) of them that the model wrote."""
    found: list[defaultdict[Run, Counter[int]]] = [defaultdict(Counter) for _ in range(LONGEST)]
    for ids, first, end in texts:
        for place in range(first, end):
            for length in range(1, min(LONGEST, place) + 1):
                found[length - 1][tuple(ids[place - length : place])][ids[place]] += 1
    behind: dict[Run, Next] = {}
    for length, runs in enumerate(found, start=1):
        for run, followers in runs.items():
            (token_id, times), seen = followers.most_common(1)[0], followers.total()
            share = times / seen
            if seen < (LEAST_ALONE if length == 1 else LEAST) or times < LEAST_NEXT or share < LEAST_SHARE:
                continue
            shorter = behind.get(run[1:])
            if shorter is None or shorter.token_id != token_id or abs(shorter.share - share) >= ALIKE:
                behind[run] = Next(token_id, share, seen)
    return Phrases(behind)
