"""What a training record says of scores: their calibration, and the threshold that a page begins with. No torch here.

calibration  masks [[slope, offset], …] (mars/acceptance.py), and how `python -m analysis calibrate` found them
default      threshold and score, and the runs among which `python -m analysis card` chose them, as `stops`
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mars.checkpoint.sources import RECORD_FILE
from mars.config import DEFAULT_THRESHOLD, MAX_BLOCK_SIZE, ScoreName, check_threshold
from mars.lines import object_in
from mars.schema import Open, checked

Measured = tuple[float, float, float]
Pair = tuple[Annotated[float, Field(gt=0)], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Open):
    """The slope and the offset of each mask from the left; of all masks if there is one pair."""

    masks: Annotated[tuple[Pair, ...], Field(min_length=1, max_length=MAX_BLOCK_SIZE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Open):
    """Points of accuracy to AR's on `n` problems, and the speed over AR's on some; both with the interval's ends."""

    threshold: float | None
    n: int
    points: Measured
    tokens_per_forward: float
    speed: Measured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Open):
    """The threshold and score to begin with; `stops` are the thresholds that were measured, None for one-token mode."""

    threshold: float = DEFAULT_THRESHOLD
    score: ScoreName = "probability"
    stops: tuple[Stop, ...] = ()

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores(Open):
    """Both, of a record."""

    calibration: Calibration | None = None
    default: Start = field(default_factory=Start)

    @property
    def pairs(self) -> Sequence[tuple[float, float]]:
        """The calibration for an engine, none if there is none."""
        return () if self.calibration is None else self.calibration.masks


def scores_of(record: Mapping[str, Any]) -> Scores:
    """What the record says."""
    return checked(Scores, {name: record[name] for name in ("calibration", "default") if name in record})


def scores_in(source: str) -> Scores:
    """What the record in a local folder says; nothing for other sources, and for a record that cannot be read."""
    try:
        return scores_of(object_in(Path(source).expanduser() / RECORD_FILE))
    except (RuntimeError, ValueError):
        return Scores()


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record of a folder, whole or not at all."""
    part = folder / f"{RECORD_FILE}.part"
    part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(folder / RECORD_FILE)
