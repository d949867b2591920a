"""Training settings: frozen, checked at the door, saved with the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["sft", "mars", "block_diffusion"]

HEAD_SIZE = 32

_RANGES: tuple[tuple[tuple[str, ...], str, Callable[[float], bool]], ...] = (
    (
        ("block_size", "examples", "batch_size", "gradient_accumulation", "max_length", "save_steps"),
        ">= 1",
        lambda value: value >= 1,
    ),
    (("learning_rate", "epochs"), "> 0", lambda value: value > 0),
    (("seed", "data_seed"), f"between 0 and {2**20 - 1}", lambda value: 0 <= value < 2**20),
    (("drill_share", "warmup_share"), ">= 0 and < 1", lambda value: 0 <= value < 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """One training stage.

    `checkpoint` is a folder or Hub id to start from; None trains a small model from scratch (stage sft only), of this
    many `layers` and this `hidden_size` (None: what `mars.training.start` says), with the vocabulary of the checkpoint
    `tokenizer` or, without one, with a tokenizer trained on the tasks. `data` is a chat JSONL; None generates
    `examples` synthetic problems. `max_length` is in tokens. `batch_size` is in sequences per device and optimizer
    step, before `gradient_accumulation`.
    """

    stage: Stage
    output: str
    checkpoint: str | None = None
    layers: int | None = None
    hidden_size: int | None = None
    tokenizer: str | None = None
    data: str | None = None
    examples: int = 100_000
    data_seed: int = 0
    drill_share: float = 0.0
    epochs: float = 1.0
    block_size: int = 8
    sft_loss: bool = True
    batch_size: int = 48
    gradient_accumulation: int = 1
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 5e-6
    warmup_share: float = 0.03
    weight_decay: float = 0.0
    max_length: int = 512
    precision: Literal["bf16", "fp32"] = "bf16"
    seed: int = 0
    save_steps: int = 500
    resume: bool = False

    def __post_init__(self) -> None:
        self._check_ranges()
        self._check_scratch()
        if self.masks and self.checkpoint is None:
            raise ValueError(f"stage {self.stage} starts from an SFT checkpoint: give --checkpoint DIR_OR_ID")
        if self.max_length % self.block_size and self.masks:
            raise ValueError(
                f"max_length must be a multiple of block_size, got {self.max_length} and {self.block_size}"
            )

    @property
    def masks(self) -> bool:
        """Whether the stage trains the mask token, in blocks of `block_size`."""
        return self.stage != "sft"

    def _check_scratch(self) -> None:
        for name in ("layers", "hidden_size", "tokenizer"):
            if self.checkpoint is not None and getattr(self, name) is not None:
                raise ValueError(
                    f"{name} is for a model from scratch, got {getattr(self, name)} with checkpoint {self.checkpoint}: "
                    "give one or the other"
                )
        if self.layers is not None and self.layers < 1:
            raise ValueError(f"layers must be >= 1, got {self.layers}")
        if self.hidden_size is not None and (self.hidden_size < HEAD_SIZE or self.hidden_size % HEAD_SIZE):
            raise ValueError(f"hidden_size must be a multiple of {HEAD_SIZE}, the head size, got {self.hidden_size}")

    def _check_ranges(self) -> None:
        for names, rule, holds in _RANGES:
            for name in names:
                if not holds(getattr(self, name)):
                    raise ValueError(f"{name} must be {rule}, got {getattr(self, name)}")
