"""Training settings: frozen, checked on creation, saved with the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mars.decoders import Stage

Mode = Literal["gated", "merged"]

HEAD_SIZE = 32


def _check(settings: object, rule: str, holds: Callable[[float], bool], *names: str) -> None:
    """Raise ValueError, with the rule and the value, unless the rule holds; a value of None is left to the run."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not holds(value):
            raise ValueError(f"{name} must be {rule}, got {value}")


def _at_least(settings: object, lowest: int, *names: str) -> None:
    _check(settings, f">= {lowest}", lambda value: value >= lowest, *names)


def _positive(settings: object, *names: str) -> None:
    _check(settings, "> 0", lambda value: value > 0, *names)


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
        counts = ("batch_size", "gradient_accumulation", "max_length", "save_steps")
        _at_least(self, 1, "block_size", "examples", *counts, "layers")
        _positive(self, "learning_rate", "epochs")
        _check(self, f"between 0 and {2**20 - 1}", lambda value: 0 <= value < 2**20, "seed", "data_seed")
        _check(self, ">= 0 and < 1", lambda value: 0 <= value < 1, "drill_share", "warmup_share")
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
        rule = f"a multiple of {HEAD_SIZE}, the head size"
        _check(self, rule, lambda value: value >= HEAD_SIZE and not value % HEAD_SIZE, "hidden_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillSettings:
    """Settings of `distill`.

    `prompts` are files of prompts: JSONL, with `FILE:FIELD` naming the field that holds the text (default `prompt`), or
    plain text with one prompt a line. `self_prompts` is how many prompts the model writes itself, `second_turns` the
    share of conversations that it continues with a second question of its own. `places` conversations are written at
    once. Prompts longer than `max_prompt_tokens` are left out; answers end after `max_new_tokens`.
    """

    output: str
    prompts: tuple[str, ...] = ()
    self_prompts: int = 0
    second_turns: float = 0.1
    places: int = 64
    max_prompt_tokens: int = 448
    max_new_tokens: int = 256
    temperature: float = 0.8
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _at_least(self, 1, "places", "max_prompt_tokens", "max_new_tokens")
        _at_least(self, 0, "self_prompts")
        _check(self, "between 0 and 1", lambda value: 0 <= value <= 1, "second_turns")
        if not self.prompts and not self.self_prompts:
            raise ValueError("there is nothing to write: give --prompts FILE, or --self-prompts N")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """Settings of `pair`: an SFT adapter and a MARS adapter from it, in the folders `sft` and `mars` of `output`.

    `problems` are generated for each stage, `self_prompts` conversations the model asks for itself in each; `data` are
    JSONL files of other conversations with known answers, for stage 1, and `prompts` files of prompts, as `distill`
    reads them, that stage 1 answers for stage 2. `sft_weight` is stage 2's weight of the text without masks.
    `sft_minutes` and `mars_minutes` are the time of training. Ranks are of the LoRA; the MARS adapter that is written
    has the sum of both.
    """

    output: str
    base: str = "smollm2-135m"
    data: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    problems: int = 6000
    self_prompts: int = 3000
    sft_minutes: float = 30.0
    mars_minutes: float = 120.0
    sft_weight: float = 4.0
    sft_rank: int = 8
    rank: int = 24
    masks: int = 5
    anchors: int = 640
    batch_size: int = 6
    places: int = 64
    max_length: int = 480
    seed: int = 0

    def __post_init__(self) -> None:
        _at_least(self, 1, "problems", "sft_rank", "rank", "anchors", "batch_size", "places", "max_length")
        _at_least(self, 3, "masks")
        _at_least(self, 0, "self_prompts")
        _positive(self, "sft_minutes", "mars_minutes", "sft_weight")
        _check(self, f"between 0 and {2**18 - 1}", lambda value: 0 <= value < 2**18, "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """One run.

    `base` is a checkpoint source, `data` JSONL files of `python -m mars.training distill`. `masks` is K, the masks of
    a group; `anchors` how many groups a sequence has in a step, `keep` the probability that a group goes on after each
    of its masks. `sft_weight` is for mode merged: the weight of the loss that holds the answers' tokens to the base's
    distribution (that of masks has weight 1); 0 trains the masks alone. Without masks, K = 0, mode merged is plain SFT,
    to compare with. `block_size` is what decoders take unless told otherwise (None: K + 1): where columns cost time, as
    on a CPU, a smaller one may be faster. `start` is a saved step to go on from with a new schedule.
    `batch_size` is in sequences per process. With `minutes` the clock sets the schedule, not `epochs`, over as many
    calls as it takes; a call ends, saved, after `pause_after` minutes of its own.
    """

    base: str
    data: tuple[str, ...]
    output: str
    mode: Mode = "gated"
    sft_weight: float = 1.0
    masks: int = 6
    block_size: int | None = None
    rank: int = 16
    head: bool = True
    hard_share: float = 1.0
    start: str | None = None
    anchors: int = 64
    keep: float = 0.8
    batch_size: int = 4
    gradient_accumulation: int = 1
    learning_rate: float = 1e-3
    warmup_share: float = 0.03
    epochs: float = 1.0
    minutes: float | None = None
    pause_after: float | None = None
    max_length: int = 640
    seed: int = 0
    save_steps: int = 100
    resume: bool = False

    def __post_init__(self) -> None:
        _at_least(self, 0, "masks")
        _at_least(self, 1, "rank", "anchors", "batch_size", "gradient_accumulation", "save_steps")
        _at_least(self, 16, "max_length")
        _positive(self, "learning_rate", "epochs", "minutes", "pause_after")
        _check(self, "above 0 and at most 1", lambda value: 0 < value <= 1, "keep")
        if self.mode not in ("gated", "merged"):
            raise ValueError(f"mode must be gated or merged, got {self.mode!r}")
        self._check_losses()
        if self.block_size is not None and not 2 <= self.block_size <= self.masks + 1:
            raise ValueError(f"block_size must be between 2 and masks + 1 = {self.masks + 1}, got {self.block_size}")
        if self.pause_after is not None and self.minutes is None:
            raise ValueError("pause_after is for training by the clock: give minutes too")

    def _check_losses(self) -> None:
        _at_least(self, 0, "sft_weight")
        if self.sft_weight != 1 and self.mode != "merged":
            raise ValueError(
                "sft-weight is for mode merged: a gated adapter leaves real tokens to the base, so it has no SFT loss"
            )
        if self.masks:
            return
        if self.mode != "merged" or not self.sft_weight:
            raise ValueError("masks must be >= 1, or 0 in mode merged with the SFT loss: else nothing is trained")
        if self.head or self.block_size is not None:
            raise ValueError("masks 0 is plain SFT, without a head or a block size: give no-head and no block-size")
