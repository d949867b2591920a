"""A synthetic task: templates that draw parameters, a partition of those parameters, and a checker.

The words at the end are the small world that all tasks speak of.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

Split = Literal["train", "heldout"]

HELDOUT_SHARE = 8
"""One in this many parameter hashes is held out."""

MAX_SEED = 2**53
_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem as drawn. `parameters` is all that distinguishes this problem from others, wording aside."""

    parameters: tuple[object, ...]
    prompt: str
    solution: str
    answer: str


Template = Callable[[Random], Draft]


@dataclass(frozen=True, slots=True)
class Problem:
    """A prompt with its worked solution and the answer a checker compares with.

    `answer` is plain text, or a JSON object for the families that are judged by form or by running code.
    """

    task: str
    seed: int
    prompt: str
    solution: str
    answer: str


@dataclass(frozen=True, slots=True)
class Task:
    """A family of problems: its templates and the checker of a generated text."""

    name: str
    templates: tuple[Template, ...]
    check_text: Callable[[str, str], bool]

    def generate(self, seed: int, split: Split = "heldout") -> Problem:
        """The problem of this seed, the same on any machine; the two splits share no parameters.

        Raises:
            ValueError: the seed is negative or too large, or the split unknown.
        """
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
            raise ValueError(f"seed must be a whole number between 0 and {MAX_SEED}, got {seed!r}")
        if split not in get_args(Split):
            raise ValueError(f"split must be one of {', '.join(get_args(Split))}, got {split!r}")
        rng = Random(f"{self.name}/{split}/{seed}")
        template = rng.choice(self.templates)
        while True:
            draft = template(rng)
            if split_of(template.__name__, draft.parameters) == split:
                return Problem(self.name, seed, draft.prompt, draft.solution, draft.answer)

    def check(self, problem: Problem, text: str) -> bool:
        """Whether the generated `text` solves `problem`. Any text is safe to pass."""
        return self.check_text(problem.answer, text)


def split_of(template: str, parameters: tuple[object, ...]) -> Split:
    """The split that these parameters belong to, from a hash that does not depend on the machine."""
    digest = hashlib.blake2b(f"{template}{parameters!r}".encode(), digest_size=8).digest()
    return "heldout" if int.from_bytes(digest, "big") % HELDOUT_SHARE == 0 else "train"


def vary(rng: Random, text: str) -> str:
    """Replace every `[a|b|c]` of `text` by one of its choices, innermost first."""
    while match := _CHOICE.search(text):
        text = text[: match.start()] + rng.choice(match[1].split("|")) + text[match.end() :]
    return text


def last_match(pattern: re.Pattern[str], text: str) -> str | None:
    """Group 1 of the last match, stripped, or None."""
    found = pattern.findall(text)
    return found[-1].strip() if found else None


PEOPLE = (
    "Ana", "Ben", "Cora", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ivy", "Jack", "Kira", "Leo", "Mia", "Noah", "Olga",
    "Paul", "Rosa", "Sam", "Tina", "Vera",
)  # fmt: skip
CITIES = ("Toulouse", "Seattle", "Charleston", "Lima", "Oslo", "Kyoto", "Cairo", "Quito", "Porto", "Delhi")
ITEMS = (
    "apples", "pencils", "stickers", "marbles", "books", "shells", "coins", "stamps", "cards", "balloons", "buttons",
    "flowers", "cookies", "stones",
)  # fmt: skip
COLORS = ("red", "blue", "green", "yellow", "black", "white", "purple", "orange")
ANIMALS = ("fox", "owl", "cat", "dog", "horse", "rabbit", "bear", "duck", "goat", "mouse")
PLACES = ("river", "garden", "forest", "market", "station", "library", "harbor", "bridge", "school", "tower")
FRUITS = ("apple", "pear", "plum", "cherry", "banana", "grape", "lemon", "peach")
VEGETABLES = ("carrot", "onion", "potato", "pepper", "cabbage", "bean", "leek", "radish")
TOOLS = ("hammer", "saw", "drill", "wrench", "pliers", "chisel", "ruler", "file")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
TIMES = {2: "twice", 3: "three times", 4: "four times"}
