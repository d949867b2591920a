"""Copies as drafts: the tokens that followed an earlier occurrence of the same tokens. No torch, and no model is asked.

Prompt lookup (Saxena 2023) as a source of drafts. The last `LONGEST` tokens, or as many of them as occurred before, are
looked up in prompt and response; the token behind their latest occurrence is the draft. If a draft is right, the one
after it probably is too: every token that matches makes the next one surer. Tokens of the chat template, which no
answer holds, are read and never copied.
"""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 4  # tokens that are looked up
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
            for length in range(1, 1 + (0 if token in self.never else min(LONGEST, len(self.tokens)))):
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
