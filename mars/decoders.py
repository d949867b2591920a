"""The decoders, each described once: its names, its needs, its settings, its module. No torch here.

The command line, `custom_generate`, the page and its scripts, the API, benchmarks and figures look facts up here, so
that a new decoder is one file and one entry in `TABLE` (docs/extending.md). `mars.decoding.DECODERS` are the decoders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_args

from mars.config import SCORES, SETTINGS, meets_threshold
from mars.metrics import COUNTED
from mars.schema import page_json

BASELINE = "autoregressive"
USUAL = "sliding_window"
EXACT = "self_speculative"
RELAXED = "relaxed"

SAMPLING = ("temperature", "top_p", "seed")
WINDOW = ("threshold", "block_size", "score", "extra_proposal")

FamilyName = Literal["ar", "masks", "exact"]
Needs = Literal["causal", "masks"]
Stage = Literal["sft", "mars", "block_diffusion"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""The stages of training that runs name, adapters aside; the last is of old runs alone, which commit 4ebfdf5 made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderInfo:
    """The facts of one decoder.

    `name` is its name in commands, files and addresses; `title` and `line` describe it to a person, `lane` heads a lane
    that it writes. `family` is "ar" for one token a pass, "masks" where a threshold decides, "exact" where drafts are
    verified. `settings` are the fields of `DecodingSettings` that it reads beside length, cache and alternatives.

    `needs` is the model: any causal one, or one trained to fill masks; `draft` asks for a second, smaller one. `exact`:
    greedy, its text is that of autoregressive decoding of the same weights.
    `verifies`: its threshold decides about drafts, and without one it is exact.

    `function` is "module:name", imported late: what makes its `Method`. `alone` is the reason why its rows never share
    passes with those of other runs; then `function` is the `Decoder` itself.

    `guesses` says that its first drafts are random tokens, those of the seed.
    """

    name: str
    title: str
    lane: str
    line: str
    family: FamilyName
    settings: tuple[str, ...]
    needs: Needs = "causal"
    draft: bool = False
    exact: bool = False
    verifies: bool = False
    function: str
    alone: str = ""
    guesses: bool = False

    def __post_init__(self) -> None:
        if unknown := [name for name in self.settings if name not in SETTINGS]:
            raise ValueError(f"settings of {self.name} must be fields of DecodingSettings, got {unknown[0]!r}")

    @property
    def heeds_threshold(self) -> bool:
        """Whether a threshold acts, be it on what its draft model writes."""
        return "threshold" in self.settings

    @property
    def by_threshold(self) -> bool:
        """Whether a threshold decides what it writes."""
        return self.family == "masks"

    @property
    def has_one_token_mode(self) -> bool:
        """Whether without a threshold it writes one token a pass, the text of autoregressive decoding."""
        return self.by_threshold and not self.verifies

    def acting(self, temperature: float) -> tuple[str, ...]:
        """The settings that act: without a temperature nothing is drawn, but random guesses are, at any."""
        if temperature > 0:
            return self.settings
        drawing = {"top_p"} if self.guesses else {"top_p", "seed"}
        return tuple(name for name in self.settings if name not in drawing)


def kinds(*, masks: bool) -> frozenset[Needs]:
    """The needs that a model meets: one trained to fill masks, or any other."""
    return frozenset({"causal", "masks"} if masks else {"causal"})


_ENTRIES = (
    DecoderInfo(
        name=BASELINE,
        title="AR",
        lane="AR",
        line="One token a pass: the baseline of everything else, on any checkpoint.",
        family="ar",
        settings=SAMPLING,
        exact=True,
        function="mars.decoding.autoregressive:method_of",
    ),
    DecoderInfo(
        name=USUAL,
        title="MARS, threshold",
        lane="MARS",
        line="Masks behind the text propose a block of tokens; those that meet the threshold are accepted.",
        family="masks",
        settings=(*WINDOW, "window", *SAMPLING),
        needs="masks",
        function="mars.decoding.sliding_window:method_of",
    ),
    DecoderInfo(
        name=EXACT,
        title="MARS, exact",
        lane="MARS exact",
        line="Each pass verifies drafts from masks or the same words earlier: the one-token text, in fewer passes.",
        family="exact",
        settings=("block_size", "extra_proposal", "layout", *SAMPLING),
        needs="masks",
        exact=True,
        function="mars.decoding.self_speculative:method_of",
    ),
    DecoderInfo(
        name=RELAXED,
        title="MARS, relaxed",
        lane="MARS relaxed",
        line="As MARS exact, but a draft also stays if it is at least τ times as probable as the best token.",
        family="masks",
        settings=("threshold", "block_size", "extra_proposal", "layout", *SAMPLING),
        needs="masks",
        verifies=True,
        function="mars.decoding.relaxed:method_of",
    ),
    DecoderInfo(
        name="jacobi",
        title="Jacobi",
        lane="Jacobi",
        line="Each pass guesses the next tokens again and keeps the right ones: the text of AR, on any checkpoint.",
        family="exact",
        settings=("draft_tokens", *SAMPLING),
        exact=True,
        function="mars.decoding.jacobi:method_of",
        guesses=True,
    ),
    DecoderInfo(
        name="prompt_lookup",
        title="Prompt lookup",
        lane="Prompt lookup",
        line="Each pass verifies copies of what followed the same words earlier: the text of AR, on any checkpoint.",
        family="exact",
        settings=("draft_tokens", *SAMPLING),
        exact=True,
        function="mars.decoding.prompt_lookup:method_of",
    ),
    DecoderInfo(
        name="block_cached",
        title="Block cache",
        lane="MARS, block cache",
        line="As with a threshold, but tokens enter the cache block by block, as in the published code.",
        family="masks",
        settings=(*WINDOW, "cache_block_size", *SAMPLING),
        needs="masks",
        function="mars.decoding.block_cached:block_cached",
        alone="its rows share the moment at which a block enters the cache",
    ),
    DecoderInfo(
        name="speculative",
        title="Draft model",
        lane="Draft model",
        line="A smaller checkpoint drafts, and each pass of the larger one verifies: the text of the larger one alone.",
        family="exact",
        settings=("draft_tokens", *WINDOW, *SAMPLING),
        draft=True,
        exact=True,
        function="mars.decoding.speculative:speculative",
        alone="its draft model has a cache of its own",
    ),
)
TABLE = {decoder.name: decoder for decoder in _ENTRIES}


def names(decoders: Iterable[DecoderInfo] | None = None) -> str:
    """The names of these decoders, or of all, as a sentence lists what there is to choose from."""
    return ", ".join(decoder.name for decoder in (TABLE.values() if decoders is None else decoders))


def drafted() -> list[DecoderInfo]:
    """The decoders that need a draft model."""
    return [decoder for decoder in TABLE.values() if decoder.draft]


def check_name(name: str, what: str = "decoder") -> None:
    """Raise ValueError, which lists the decoders, unless `name` is one of them."""
    if name not in TABLE:
        raise ValueError(f"{what} must be one of {names()}, got {name!r}")


def described() -> str:
    """A line for each decoder, as the help of a command shows them."""
    width = max(map(len, TABLE))
    return "\n".join(f"  {name:{width}}  {decoder.line}" for name, decoder in TABLE.items())


def load(place: str) -> Any:
    """Import the object that "module:name" names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def as_json() -> str:
    """What app/browser/shared/decoders.js reads of the table, of phases and of scores."""
    told: Mapping[str, Any] = {
        "decoders": {
            name: {fact: getattr(decoder, fact) for fact in ("title", "family", "needs", "verifies")}
            for name, decoder in TABLE.items()
        },
        "counted": sorted(COUNTED),
        "surer_when_lower": [score for score in SCORES if meets_threshold(0.0, 1.0, score)],
    }
    return page_json(told)
