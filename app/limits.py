"""How much one person may ask for, and the checks that say so in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_CHARACTERS = 20_000
FEWEST_TOKENS, MOST_TOKENS = 16, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest prompt, in characters, and the longest answer, in tokens, that can be asked for."""

    characters: int = MAX_CHARACTERS
    new_tokens: int = MOST_TOKENS

    def check_prompt(self, prompt: Any) -> str:
        """The prompt as text that can be encoded: lone surrogates become U+FFFD.

        Raises:
            ValueError: it is no text, empty, or too long.
        """
        if not isinstance(prompt, str):
            raise ValueError(f"The prompt must be text, got {kind(prompt)}.")
        if not prompt.strip():
            raise ValueError("The prompt is empty. Write one, or choose a problem.")
        if len(prompt) > self.characters:
            raise ValueError(
                f"The prompt has {len(prompt):,} characters; at most {self.characters:,} are read. Shorten it."
            )
        return prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def check_length(self, tokens: Any) -> int:
        """The length limit as a whole number.

        Raises:
            ValueError: it is none, or out of range.
        """
        number = whole(tokens)
        if number is None or not FEWEST_TOKENS <= number <= self.new_tokens:
            raise ValueError(f"The length limit must be between {FEWEST_TOKENS} and {self.new_tokens} new tokens.")
        return number


USUAL_LIMITS = Limits()


def whole(value: Any) -> int | None:
    """A whole number given as int or float; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any, name: str, lowest: float, highest: float) -> float:
    """A finite number in range.

    Raises:
        ValueError: it is none, in a sentence that begins with `name`.
    """
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not lowest <= value <= highest:  # true of NaN, too
        shown = _shown(value) if good else kind(value)
        raise ValueError(f"{name} must be a number between {lowest:g} and {highest:g}, got {shown}.")
    return float(value)


def text(value: Any, name: str, longest: int = 200) -> str:
    """A short text.

    Raises:
        ValueError: it is none, in a sentence that begins with `name`.
    """
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {kind(value)}.")
    if len(value) > longest:
        raise ValueError(f"{name} must have at most {longest} characters, got {len(value):,}.")
    return value


def kind(value: Any) -> str:
    """What a value is, for a sentence that refuses it."""
    names = {
        type(None): "nothing",
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "something else")


def _shown(value: float) -> str:
    """A number, however large."""
    try:
        return f"{float(value):g}"
    except OverflowError:
        return "a number too large to write"
