"""What the page knows of each decoder: what it is called, to which family it belongs, and which settings it reads."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

Family = Literal["ar", "masks", "exact"]

SAMPLING = frozenset({"temperature", "top_p", "seed"})
JUDGING = frozenset({"follows", "threshold", "score"})
WINDOW = frozenset({"block_size", "extra_proposal"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`settings` are the fields of a `LaneChoice` that act on this decoder.

    The family is "ar" for one token a pass, "masks" where a threshold decides, "exact" where the text is that of
    one-token mode.
    """

    title: str
    family: Family
    settings: frozenset[str]

    @property
    def has_threshold(self) -> bool:
        """Whether a threshold decides what is accepted."""
        return "threshold" in self.settings


FACTS = {
    "autoregressive": Facts(title="AR", family="ar", settings=SAMPLING),
    "sliding_window": Facts(title="MARS", family="masks", settings=JUDGING | WINDOW | SAMPLING),
    "self_speculative": Facts(title="MARS exact", family="exact", settings=WINDOW | SAMPLING | {"layout"}),
    "jacobi": Facts(title="Jacobi", family="exact", settings=SAMPLING | {"draft_tokens"}),
    "block_cached": Facts(
        title="MARS, block cache", family="masks", settings=JUDGING | WINDOW | SAMPLING | {"cache_block_size"}
    ),
    "block_diffusion": Facts(title="Block diffusion", family="masks", settings=JUDGING | SAMPLING | {"block_size"}),
    "speculative": Facts(
        title="Speculative",
        family="exact",
        settings=JUDGING | WINDOW | SAMPLING | {"draft", "draft_tokens", "continuation"},
    ),
}
ALL_SETTINGS = frozenset[str]().union(*(facts.settings for facts in FACTS.values()))


@cache
def names() -> tuple[str, ...]:
    """The decoders of the library, read from the source of its table: to import it takes torch, seconds of it."""
    found = find_spec("mars.decoding")
    source = Path(str(found.origin)).read_text(encoding="utf-8") if found else ""
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "DECODERS":
            return tuple(ast.literal_eval(key) for key in node.value.keys if key)  # type: ignore[union-attr]
    return tuple(FACTS)


def facts(decoder: str) -> Facts:
    """What is known of a decoder; one that is not in the table may read every setting."""
    return FACTS.get(decoder) or Facts(title=words(decoder).capitalize(), family="masks", settings=ALL_SETTINGS)


def words(decoder: str) -> str:
    """Its name as people write it."""
    return decoder.replace("_", " ")
