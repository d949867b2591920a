"""Finds where growing texts first differ."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence


class Differences:
    """The first difference of each other lane's text from the baseline's, as the token of both that holds it."""

    def __init__(self, baseline: str, others: Iterable[str]) -> None:
        self._baseline = baseline
        self._common = dict.fromkeys(others, 0)  # characters that a lane and the baseline begin with
        self._texts = dict.fromkeys((baseline, *self._common), "")
        self._ends: dict[str, list[int]] = {lane: [] for lane in self._texts}  # of the tokens, in characters
        self._ended: set[str] = set()
        self._different: set[str] = set()

    def add(self, lane: str, pieces: Sequence[str] = (), *, ends: bool = False) -> list[dict[str, int]]:
        """Add the text of more tokens, or note that the text `ends`; returns each first difference that this shows.

        A text that ends while the other is longer differs from it there.
        """
        for piece in pieces:
            self._texts[lane] += piece
            self._ends[lane].append(len(self._texts[lane]))
        if ends:
            self._ended.add(lane)
        shown = [other for other in self._others(lane) if self._look(other)]
        return [
            {each: self._token_at(each, self._common[other]) for each in (self._baseline, other)} for other in shown
        ]

    def agreeing(self, lane: str) -> dict[str, int]:
        """How many tokens `lane` (for the baseline, each lane) and the baseline have in common, until they differ.

        A token without text is counted with the next one that has some: nothing shows yet what it says.
        """
        return {other: self._agreed(other) for other in self._others(lane) if other not in self._different}

    def same(self, ended: Iterable[str]) -> list[str]:
        """The lanes that wrote the baseline's text, if they and the baseline `ended` by themselves."""
        complete = set(ended)
        if self._baseline not in complete:
            return []
        return [other for other in self._common if other in complete and other not in self._different]

    def _others(self, lane: str) -> Iterable[str]:
        return self._common if lane == self._baseline else (lane,)

    def _look(self, other: str) -> bool:
        """Whether the first difference of this lane shows now."""
        if other in self._different:
            return False
        pair = (self._baseline, other)
        one, two = (self._texts[lane] for lane in pair)
        common, shortest = self._common[other], min(len(one), len(two))
        while common < shortest and one[common] == two[common]:
            common += 1
        self._common[other] = common
        is_over = any(lane in self._ended and len(self._texts[lane]) == common for lane in pair)
        if common < shortest or (is_over and len(one) != len(two)):
            self._different.add(other)
        return other in self._different

    def _token_at(self, lane: str, character: int) -> int:
        """The token with this character; past the end of the text the last one."""
        ends = self._ends[lane]
        return min(bisect_right(ends, character), max(0, len(ends) - 1))

    def _agreed(self, other: str) -> int:
        ends = self._ends[other]
        whole = bisect_right(ends, self._common[other])
        return bisect_left(ends, ends[whole - 1]) + 1 if whole and ends[whole - 1] else 0
