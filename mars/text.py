"""Text from tokens as they come, and what of it a terminal may be shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
LONGEST_CHARACTER = 4  # bytes of UTF-8
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class TextPieces:
    """Splits a text into what each token adds to it.

    A token whose bytes end inside a character adds nothing yet; the token that completes the character adds it whole.
    Bytes that never complete are shown as the replacement character: those of a token once three more wait behind it,
    or at `flush`.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._context = 0  # ids from here on are decoded: the last piece stays in view, for spacing
        self._shown = 0  # ids before this one have given their text

    def add(self, token_id: int) -> str:
        """The text that this token adds, perhaps nothing."""
        self._ids.append(token_id)
        return self._release(waits=LONGEST_CHARACTER - 1)

    def peek(self, token_id: int) -> str:
        """The text that this token would add, were it the last one: bytes of an incomplete character replaced."""
        before = self._decode(self._ids[self._context : self._shown])
        return self._decode([*self._ids[self._context :], token_id])[len(before) :]

    def flush(self) -> str:
        """The text that still waits, at the end of a run."""
        return self._release(waits=0) if self._shown < len(self._ids) else ""

    def _release(self, waits: int) -> str:
        before = self._decode(self._ids[self._context : self._shown])
        after, shown = self._decode(self._ids[self._context :]), len(self._ids)
        if waits and after.endswith(REPLACEMENT):
            if shown - self._shown <= waits:
                return ""
            shown = self._shown + 1
            after = self._decode(self._ids[self._context : shown])
        self._context, self._shown = self._shown, shown
        return after[len(before) :]


def printable(text: str) -> str:
    """`text` with every character that could drive a terminal, or turn its line around, shown as a replacement.

    Newline and tab stay.
    """
    return "".join(
        REPLACEMENT if one in _BIDI or (unicodedata.category(one) in ("Cc", "Cs") and one not in "\n\t") else one
        for one in text
    )
