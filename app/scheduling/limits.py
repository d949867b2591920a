"""Limits on what one person may ask for, and checks that name them in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mars.schema import shown

MAX_CHARACTERS = 20_000
FEWEST_TOKENS, MOST_TOKENS = 16, 512
MOST_TURNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest prompt, in characters, and the longest answer, in tokens, that can be asked for.

    A conversation has at most `turns` questions, and no more characters than a prompt.
    """

    characters: int = MAX_CHARACTERS
    new_tokens: int = MOST_TOKENS
    turns: int = MOST_TURNS

    def check_prompt(self, prompt: object) -> str:
        """The prompt as text that can be encoded: lone surrogates become U+FFFD.

        Raises:
            ValueError: it is no text, empty, or too long.
        """
        if not isinstance(prompt, str):
            raise ValueError(f"The prompt must be text, got {shown(prompt)}.")
        if not prompt.strip():
            raise ValueError("The prompt is empty. Write one, or choose an example.")
        if len(prompt) > self.characters:
            raise ValueError(
                f"The prompt has {len(prompt):,} characters; at most {self.characters:,} are read. Shorten it."
            )
        return prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def check_conversation(self, texts: Sequence[str], turns: int) -> None:
        """Refuse a conversation of so many questions; `texts` are the questions and their answers.

        Raises:
            ValueError: there are too many questions, or the texts are too long.
        """
        if turns > self.turns:
            raise ValueError(f"A conversation has at most {self.turns} questions. Press Run to start afresh.")
        written = sum(map(len, texts))
        if written > self.characters:
            raise ValueError(
                f"This conversation has {written:,} characters; at most {self.characters:,} are read. "
                "Press Run to start afresh."
            )

    def check_length(self, tokens: object) -> int:
        """The length limit as a whole number.

        Raises:
            ValueError: it is none, or out of range.
        """
        whole = int(tokens) if isinstance(tokens, float) and tokens.is_integer() else tokens
        right = isinstance(whole, int) and not isinstance(whole, bool)
        if not right or not FEWEST_TOKENS <= whole <= self.new_tokens:  # type: ignore[operator]
            raise ValueError(f"The length limit must be between {FEWEST_TOKENS} and {self.new_tokens} new tokens.")
        return whole  # type: ignore[return-value]


USUAL_LIMITS = Limits()
