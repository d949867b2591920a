"""What a person chooses for one lane: checkpoint, decoder and settings; the presets; and the settings they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

from app import decoders
from app.decoders import Facts, Family
from app.runs.checks import fields, number, shown, text, whole
from mars.config import DEFAULT_THRESHOLD, DecodingSettings, LayoutName, ScoreName

LONGEST_NAME = 200
LARGEST = 2**63 - 1
LANE_KEYS = ("a", "b", "c")
"""The lanes of a run by their places; there are no more."""
OWN = "Own"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneChoice:
    """One lane. `follows` says that the live slider acts on it; without it `threshold` is its own, None one-token mode.

    `block_size` None is that of the checkpoint; `draft` is the name of a second checkpoint. The other fields are those
    of `mars.config.DecodingSettings`.
    """

    checkpoint: str
    decoder: str = "sliding_window"
    follows: bool = True
    threshold: float | None = DEFAULT_THRESHOLD
    score: ScoreName = "probability"
    block_size: int | None = None
    extra_proposal: bool = False
    layout: LayoutName = "auto"
    cache_block_size: int = 32
    draft_tokens: int = 4
    draft: str | None = None
    continuation: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError with one sentence: a value is out of range, or there is no such decoder."""
        if self.decoder not in decoders.names():
            raise ValueError(f"The decoder must be one of {', '.join(decoders.names())}, got {shown(self.decoder)}.")
        if self.follows and self.facts.has_threshold and self.score != "probability":
            raise ValueError(f"The slider is for probabilities: a lane whose score is {self.score} needs its own τ.")
        to_settings(self, threshold=None, block_size=None, max_new_tokens=1)

    @property
    def facts(self) -> Facts:
        """What is known of its decoder."""
        return decoders.facts(self.decoder)

    @property
    def family(self) -> Family:
        """What its passes look like; a continuation makes verified drafts a matter of the threshold again."""
        return "masks" if self.decoder == "speculative" and self.continuation else self.facts.family

    @property
    def steered(self) -> bool:
        """Whether moving the slider changes what it writes."""
        return self.follows and self.facts.has_threshold

    @property
    def checkpoints(self) -> list[str]:
        """The names of the checkpoints that it needs."""
        drafts = "draft" in self.facts.settings and self.draft
        return [self.checkpoint, self.draft] if drafts and self.draft else [self.checkpoint]

    def relevant(self) -> LaneChoice:
        """The same lane with everything that does not act on it at its default, so that equal lanes are equal."""
        kept = {
            name: getattr(self, name) for name in ("checkpoint", "decoder", *acting(self.decoder, self.temperature))
        }
        if self.steered:
            del kept["threshold"]
        return LaneChoice(**kept)


def acting(decoder: str, temperature: float) -> frozenset[str]:
    """The settings that act: without a temperature nothing is drawn (Jacobi's guesses are, at any)."""
    found = decoders.facts(decoder).settings
    if temperature > 0:
        return found
    return found - {"top_p"} if decoder == "jacobi" else found - {"top_p", "seed"}


def to_settings(
    choice: LaneChoice,
    *,
    threshold: float | None,
    block_size: int | None,
    max_new_tokens: int,
    alternatives: int = 0,
) -> DecodingSettings:
    """What a decoder gets: `threshold` is the slider's, `block_size` the checkpoint's.

    Raises:
        ValueError: one sentence that names the setting, its value and what is allowed.
    """
    own = choice.threshold if choice.facts.has_threshold else None
    return DecodingSettings(
        block_size=choice.block_size if choice.block_size is not None else block_size or DecodingSettings().block_size,
        threshold=threshold if choice.steered else own,
        score=choice.score,
        max_new_tokens=max_new_tokens,
        extra_proposal=choice.extra_proposal,
        alternatives=alternatives,
        temperature=choice.temperature,
        top_p=choice.top_p,
        seed=choice.seed,
        layout=choice.layout,
        cache_block_size=choice.cache_block_size,
        draft_tokens=choice.draft_tokens,
        continuation=choice.continuation,
    )


def choice_of(value: object, name: str) -> LaneChoice:
    """The choice that the fields of an object make, as the page or an address sends them.

    Raises:
        ValueError: one sentence that names what is wrong in `name` and what is allowed.
    """
    kinds = {field.name: str(field.type) for field in dataclass_fields(LaneChoice)}
    found = fields(value, name, {"checkpoint"}, kinds)
    checked = {key: _checked(found[key], f"{name}: {key}", kinds[key]) for key in found}
    try:
        return LaneChoice(**checked)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _checked(value: object, name: str, kind: str) -> Any:
    """A value of the kind that the dataclass declares."""
    if "None" in kind and value is None:
        return None
    if kind == "bool":
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {shown(value)}")
        return value
    if "int" in kind:
        return whole(value, name, 0, LARGEST)
    if "float" in kind:
        return number(value, name, 0.0, 1e6)
    return text(value, name, LONGEST_NAME)


PRESETS: dict[str, Callable[[str, str], LaneChoice]] = {
    "AR": lambda ar, mars: LaneChoice(checkpoint=ar, decoder="autoregressive"),
    f"MARS τ = {DEFAULT_THRESHOLD}": lambda ar, mars: LaneChoice(checkpoint=mars, decoder="sliding_window"),
    "MARS exact": lambda ar, mars: LaneChoice(checkpoint=mars, decoder="self_speculative"),
}
"""By name, from the names of the AR and the MARS checkpoint; in this order they are the lanes at the start."""


def preset_of(choice: LaneChoice, ar: str, mars: str) -> str:
    """The name of the preset that this is, or `OWN`."""
    wanted = choice.relevant()
    return next((name for name, make in PRESETS.items() if make(ar, mars).relevant() == wanted), OWN)
