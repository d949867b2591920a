"""A run and its model as claims see them: what an entry of the index says, as far as they ask."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from analysis.runs.baseline import writes_one_token
from analysis.runs.schema import DEFAULT_SETTINGS

MARS, DIFFUSION = "mars", "block_diffusion"


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a run, as docs/runs.md has it."""

    name: str
    fingerprint: str
    parameters: int
    stage: str | None
    block_size: int | None
    sft_loss: bool | None
    examples: int | None

    @property
    def is_full_mars(self) -> bool:
        """A MARS model with the SFT loss, or one of which nobody says that it has none."""
        return self.stage == MARS and self.sft_loss is not False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """What an entry of the index says, as far as claims ask. Each is equal to itself only."""

    id: str
    model: Model
    draft: Model | None
    decoder: str
    settings: dict[str, Any]
    problem_set: Hashable
    n: int
    batch_size: int
    dtype: str
    device: str
    group: str | None
    command: str
    hardware: str

    @property
    def threshold(self) -> float | None:
        """None is one-token mode."""
        return None if self.settings["threshold"] is None else float(self.settings["threshold"])

    @property
    def one_token(self) -> bool:
        """Whether it writes one token per pass, so what AR decoding of the same weights writes."""
        return writes_one_token(self.decoder, self.threshold)

    @property
    def place(self) -> str:
        """Where its seconds were taken, for people."""
        return f"{self.device}, batch {self.batch_size}"

    @property
    def turn(self) -> Hashable:
        """What runs share whose seconds can be compared; None of untimed ones."""
        return None if self.group is None else (self.group, self.batch_size, self.problem_set)

    def has(self, **settings: Any) -> bool:
        """Whether its settings are these."""
        return all(self.settings[name] == value for name, value in settings.items())


def run_of(entry: dict[str, Any]) -> Run:
    """The run of an entry."""
    settings = {**DEFAULT_SETTINGS, **entry["settings"]}
    problem_set = (
        *(tuple(entry["tasks"]), entry["problems"], entry["seed"], settings["max_new_tokens"]),
        *(entry["dtype"], entry["device"]),
    )
    return Run(
        id=entry["id"],
        model=_model(entry["model"]),
        draft=None if entry["draft"] is None else _model(entry["draft"]),
        decoder=entry["decoder"],
        settings=settings,
        problem_set=problem_set,
        n=entry["problems"] * len(entry["tasks"]),
        batch_size=entry["batch_size"],
        dtype=entry["dtype"],
        device=entry["device"],
        group=entry["group"],
        command=entry["command"],
        hardware=entry["hardware"],
    )


def _model(entry: dict[str, Any]) -> Model:
    return Model(**{name: entry[name] for name in Model.__slots__})
