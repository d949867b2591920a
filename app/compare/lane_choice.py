"""A person's choice for one lane: checkpoint, decoder and settings; the presets; and the settings they make."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Annotated

from pydantic import Field

from mars import decoders
from mars.config import DEFAULTS, METHOD_FIELDS, DecodingSettings, MethodSettings, ScoreName
from mars.decoders import DecoderInfo, FamilyName
from mars.schema import shown

LANE_KEYS = ("a", "b", "c")
"""The lanes of a run by their places; there are no more."""
OWN = "Own"
SLIDING: tuple[ScoreName, ...] = ("probability", "calibrated")
"""The scores that the slider is for."""

Name = Annotated[str, Field(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneChoice(MethodSettings):
    """One lane. If it `follows`, the live slider sets its threshold; else `threshold` does, None for one-token mode.

    `block_size` None is that of the checkpoint; `draft` is the name of a second checkpoint.
    """

    checkpoint: Name
    decoder: Name = decoders.USUAL
    follows: bool = True
    block_size: int | None = None
    draft: Name | None = None

    def __post_init__(self) -> None:
        """Raise ValueError with one sentence: a value is out of range, or there is no such decoder."""
        if self.decoder not in decoders.TABLE:
            raise ValueError(f"The decoder must be one of {decoders.names()}, got {shown(self.decoder)}.")
        if self.follows and self.info.heeds_threshold and self.score not in SLIDING:
            raise ValueError(f"The slider is for probabilities: a lane whose score is {self.score} needs its own τ.")
        to_settings(self, threshold=None, block_size=None, max_new_tokens=1)

    @property
    def info(self) -> DecoderInfo:
        return decoders.TABLE[self.decoder]

    @property
    def family(self) -> FamilyName:
        return self.info.family

    @property
    def steered(self) -> bool:
        """True if moving the slider changes its text."""
        return self.follows and self.info.heeds_threshold

    @property
    def checkpoints(self) -> list[str]:
        return [self.checkpoint, self.draft] if self.info.draft and self.draft else [self.checkpoint]

    def relevant(self) -> "LaneChoice":
        """The same lane with every setting without effect at its default, so that lanes that write alike are equal."""
        names = ("checkpoint", "decoder", *acting(self.decoder, self.temperature))
        kept = {name: getattr(self, name) for name in names}
        if self.steered:
            del kept["threshold"]
        return LaneChoice(**kept)


def acting(decoder: str, temperature: float) -> frozenset[str]:
    """The fields of a `LaneChoice` that have an effect on this decoder at this temperature; all if it is unknown."""
    info = decoders.TABLE.get(decoder)
    if info is None:
        return frozenset(field.name for field in dataclass_fields(LaneChoice)) - {"checkpoint", "decoder"}
    found = {*info.acting(temperature), *(["follows"] if info.heeds_threshold else [])}
    return frozenset(found | {"draft"} if info.draft else found)


def to_settings(
    choice: LaneChoice, *, threshold: float | None, block_size: int | None, max_new_tokens: int, alternatives: int = 0
) -> DecodingSettings:
    """The settings for a decoder, from the slider's `threshold` and the checkpoint's `block_size`, or ValueError."""
    own = choice.threshold if choice.info.heeds_threshold else None
    chosen = {name: getattr(choice, name) for name in METHOD_FIELDS} | {
        "threshold": threshold if choice.steered else own,
        "block_size": choice.block_size if choice.block_size is not None else block_size or DEFAULTS["block_size"],
        "max_new_tokens": max_new_tokens,
        "alternatives": alternatives,
    }
    return DecodingSettings(**chosen)


PRESETS: dict[str, Callable[[str, str], LaneChoice]] = {
    "AR": lambda ar, mars: LaneChoice(checkpoint=ar, decoder=decoders.BASELINE),
    "MARS": lambda ar, mars: LaneChoice(checkpoint=mars, decoder=decoders.USUAL, window="auto"),
    # The layout "auto" follows the clock so closely that no two runs would show the same passes.
    "MARS exact": lambda ar, mars: LaneChoice(checkpoint=mars, decoder=decoders.EXACT, layout="tree"),
}
"""By name, from the names of the AR and the MARS checkpoint; in this order they are the lanes at the start."""


def preset_of(choice: LaneChoice, ar: str, mars: str) -> str:
    """The name of the preset that equals this choice, or `OWN`."""
    wanted = choice.relevant()
    return next((name for name, make in PRESETS.items() if make(ar, mars).relevant() == wanted), OWN)
