"""Who takes part in a benchmark: a decoder and the settings it runs with, written as one word.

autoregressive    sliding_window@0.9/b4    block_cached/c16    self_speculative/linear    jacobi/k4
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from mars.config import DecodingSettings, LayoutName
from mars.decoding import DECODERS

GENERATE = "generate"
BASELINE = "autoregressive"
LAYOUTS: tuple[str, ...] = get_args(LayoutName)
COUNTS = {"b": "block_size", "c": "cache_block_size", "k": "draft_tokens"}
_WORDS = {
    "@": "@T (threshold, or none)",
    "b": "/bN (block size)",
    "c": "/cN (cache block size)",
    "k": "/kN (draft tokens)",
    "layout": f"/{'|'.join(LAYOUTS)} (layout)",
    "continuation": "/continuation (the target's masks after the verified drafts)",
}
_FORM = re.compile(r"(?P<name>[^@/]+)(?:@(?P<threshold>[^@/]+))?(?P<rest>(?:/[^@/]+)*)")
_COUNT = re.compile(r"([a-z])([0-9]{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a decoder takes (keys of the words above), what it needs, and whether greedy it writes what AR writes.

    `causal`: it reads a causal model, as the baseline does, so that both can take part.
    """

    takes: tuple[str, ...] = ()
    masks: bool = False
    draft: bool = False
    lossless: bool = False
    causal: bool = True


TRAITS = {
    BASELINE: Traits(lossless=True),
    "sliding_window": Traits(takes=("@", "b"), masks=True),
    "block_cached": Traits(takes=("@", "b", "c"), masks=True),
    "self_speculative": Traits(takes=("b", "layout"), masks=True, lossless=True),
    "jacobi": Traits(takes=("k",), lossless=True),
    "speculative": Traits(takes=("k", "b", "continuation"), draft=True, lossless=True),
    "block_diffusion": Traits(takes=("@", "b"), masks=True, causal=False),
}
"""A decoder that is not listed here takes part with the settings of the run and no claim about its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """`generate` or a decoder, with the settings in which it differs from those of the run."""

    decoder: str
    label: str
    changes: tuple[tuple[str, Any], ...] = ()

    @property
    def traits(self) -> Traits:
        """What is known of its decoder."""
        return TRAITS.get(self.decoder, Traits())

    @property
    def lossless(self) -> bool:
        """Whether its output must be that of autoregressive decoding; the threshold none is one-token mode."""
        changes = dict(self.changes)
        return (self.traits.lossless and "continuation" not in changes) or changes.get("threshold", "") is None

    def settings(self, base: DecodingSettings) -> DecodingSettings:
        """The settings it runs with.

        Raises:
            ValueError: one of them is out of range.
        """
        return replace(base, **dict(self.changes))


def parse_contestants(text: str, threshold: float | None) -> list[Contestant]:
    """`generate` and the baseline, then the contestants named in `text`, separated by commas, each once.

    `threshold` is for those that take one and name none.

    Raises:
        ValueError: lists what can be written.
    """
    words = [word.strip() for word in text.split(",")]
    return list(dict.fromkeys(_parse(word, threshold) for word in [GENERATE, BASELINE, *words]))


def default_contestants(threshold: float | None, *, masks: bool, draft: bool = False) -> list[Contestant]:
    """`generate`, the baseline, and every decoder that runs with or without trained masks and a draft model."""
    words = []
    for name in DECODERS:
        traits = TRAITS.get(name, Traits())
        if traits.causal and (draft or not traits.draft) and (masks or not traits.masks):
            words += [f"{name}/{layout}" for layout in LAYOUTS] if "layout" in traits.takes else [name]
    return parse_contestants(",".join(words), threshold)


def check_runnable(contestants: Sequence[Contestant], name: str, *, masks: bool, draft: bool = False) -> None:
    """Raise ValueError if a contestant cannot run on checkpoint `name`, trained with `masks` or not, with a `draft`."""
    for contestant in contestants:
        if not contestant.traits.causal:
            raise ValueError(f"{contestant.label} reads no causal model, as the baseline needs: evaluate it alone")
        if (contestant.traits.masks or "continuation" in dict(contestant.changes)) and not masks:
            raise ValueError(
                f"{contestant.label} reads masks, which {name} was not trained to fill: give a MARS checkpoint, or "
                f"decoders of {', '.join(word for word in DECODERS if not TRAITS.get(word, Traits()).masks)}"
            )
        if contestant.traits.draft and not draft:
            raise ValueError(f"{contestant.label} needs --draft DIR: a smaller checkpoint with the same vocabulary")


def parse_threshold(text: str) -> float | None:
    """A number, or None for "none".

    Raises:
        ValueError: it is neither.
    """
    try:
        return None if text == "none" else float(text)
    except ValueError:
        raise ValueError(f"a threshold must be a number or none, got {text!r}") from None


def _parse(word: str, threshold: float | None) -> Contestant:
    form = _FORM.fullmatch(word)
    if form is None or form["name"] not in (GENERATE, *DECODERS):
        raise ValueError(_allowed(word))
    name = form["name"]
    takes = TRAITS.get(name, Traits()).takes
    changes: dict[str, Any] = {}
    label = name
    if "@" in takes:
        changes["threshold"] = threshold if form["threshold"] is None else parse_threshold(form["threshold"])
        label += f"@{'none' if changes['threshold'] is None else changes['threshold']}"
    elif form["threshold"] is not None:
        raise ValueError(_allowed(word))
    for part in form["rest"].split("/")[1:]:
        field, value = _change(part, takes, word)
        if field in changes:
            raise ValueError(_allowed(word))
        changes[field] = value
        label += f"/{part}"
    return Contestant(decoder=name, label=label, changes=tuple(sorted(changes.items())))


def _change(part: str, takes: Sequence[str], word: str) -> tuple[str, Any]:
    count = _COUNT.fullmatch(part)
    if count and count[1] in COUNTS and count[1] in takes:
        return COUNTS[count[1]], int(count[2])
    if part in LAYOUTS and "layout" in takes:
        return "layout", part
    if part == "continuation" and part in takes:
        return part, True
    raise ValueError(_allowed(word))


def _allowed(word: str) -> str:
    choices = [
        " ".join([name, *(_WORDS[key] for key in TRAITS.get(name, Traits()).takes)]) for name in (GENERATE, *DECODERS)
    ]
    return f"contestants must be some of: {'; '.join(choices)}; each setting at most once, got {word!r}"
