"""Finds where two growing texts first differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class FirstDifference:
    """Finds the first character at which two growing texts differ, and the token of each that holds it."""

    def __init__(self, lanes: Iterable[str]) -> None:
        self._pieces: dict[str, list[str]] = {lane: [] for lane in lanes}
        self._ended: set[str] = set()
        self._common = 0
        self.tokens: dict[str, int] | None = None

    def add(self, lane: str, pieces: Sequence[str] = (), *, ends: bool = False) -> bool:
        """Add the text of more tokens, or note that the text `ends`; True when this shows the first difference.

        A text that ends while the other is longer differs from it there.
        """
        self._pieces[lane].extend(pieces)
        if ends:
            self._ended.add(lane)
        return self._look()

    def agreed(self, lane: str) -> int:
        """The number of tokens of `lane` that lie wholly in the text that both have in common so far.

        A token without text is counted with the next one that has some: nothing shows yet what it says.
        """
        written = tokens = 0
        for index, piece in enumerate(self._pieces[lane]):
            written += len(piece)
            if written > self._common:
                break
            tokens = index + 1 if piece else tokens
        return tokens

    def _look(self) -> bool:
        if self.tokens is not None or len(self._pieces) < 2:
            return False
        texts = {lane: "".join(pieces) for lane, pieces in self._pieces.items()}
        shortest = min(map(len, texts.values()))
        while self._common < shortest and len({text[self._common] for text in texts.values()}) == 1:
            self._common += 1
        parted = self._common < shortest
        cut = {lane for lane, text in texts.items() if len(text) == self._common}
        ended_early = bool(cut & self._ended) and len(cut) < len(texts)
        if parted or ended_early:
            self.tokens = {lane: self._token_at(lane) for lane in texts}
        return self.tokens is not None

    def _token_at(self, lane: str) -> int:
        seen = 0
        for index, piece in enumerate(self._pieces[lane]):
            seen += len(piece)
            if seen > self._common:
                return index
        return max(0, len(self._pieces[lane]) - 1)


class Differences:
    """The first difference of each other lane from the baseline."""

    def __init__(self, baseline: str, others: Iterable[str]) -> None:
        self._baseline = baseline
        self._pairs = {other: FirstDifference((baseline, other)) for other in others}

    def add(self, lane: str, pieces: Sequence[str] = (), *, ends: bool = False) -> list[dict[str, int]]:
        """As `FirstDifference.add`; returns each difference that this shows, as the token of both lanes there."""
        pairs = list(self._pairs.values()) if lane == self._baseline else [self._pairs[lane]]
        return [pair.tokens for pair in pairs if pair.add(lane, pieces, ends=ends) and pair.tokens]

    def agreeing(self, lane: str) -> dict[str, int]:
        """How many tokens `lane` (for the baseline, each lane) and the baseline have in common, until they differ."""
        others = list(self._pairs) if lane == self._baseline else [lane]
        return {other: self._pairs[other].agreed(other) for other in others if self._pairs[other].tokens is None}

    def same(self, ended: Iterable[str]) -> list[str]:
        """The lanes that wrote the baseline's text, if they and the baseline `ended` by themselves."""
        complete = set(ended)
        if self._baseline not in complete:
            return []
        return [other for other, pair in self._pairs.items() if other in complete and pair.tokens is None]
