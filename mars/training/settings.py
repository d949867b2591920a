"""Training settings: frozen, checked on creation, saved with the checkpoint; their fields are the commands' options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal

from mars.lines import object_in
from mars.options import SOURCES

HEAD_SIZE = 32
MOST_SEED = 2**20 - 1  # seed and number of a conversation or example make one seed of 64 bits


def _option(default: Any, text: str) -> Any:
    """A field that is an option, with its help; MISSING is for one that must be given."""
    return field(default=default, metadata={"help": text})


def _check(settings: object, rule: str, holds: Callable[[float], bool], *names: str) -> None:
    """Raise ValueError, with the rule and the value, unless the rule holds; a value of None is left to the run."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and (value == inf or not holds(value)):
            raise ValueError(f"{name} must be {'finite' if value == inf else rule}, got {value}")


def _at_least(settings: object, lowest: int, *names: str) -> None:
    _check(settings, f">= {lowest}", lambda value: value >= lowest, *names)


def _positive(settings: object, *names: str) -> None:
    _check(settings, "> 0", lambda value: value > 0, *names)


def keep_settings(file: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings that what is made beside `file` has; ValueError where it was begun with others."""
    ours = json.loads(json.dumps(settings))
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.part")
        part.write_text(json.dumps(ours, indent=1) + "\n", encoding="utf-8")
        part.replace(file)
        return
    if not (before := object_in(file)):
        raise ValueError(f"{file} cannot be read: delete it and what was made beside it, and start anew")
    other = next((name for name in ours if before.get(name, ours[name]) != ours[name]), None)
    if other is not None:
        change = f"{other} must be {before[other]} as before, got {ours[other]}"
        raise ValueError(f"{change}: {file.parent} goes on as it began; start anew in another folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """One training stage.

    Without a `checkpoint` a small model is trained from scratch (stage sft only), without `data` on synthetic problems.
    `batch_size` is that of an optimizer step before `gradient_accumulation`.
    """

    stage: Literal["sft", "mars"]
    output: str = _option(MISSING, "folder of the checkpoint; steps to resume from go to OUTPUT/work")
    checkpoint: str | None = _option(None, f"{SOURCES} to start from: after SFT, but in stage sft any, or none")
    layers: int | None = _option(None, "layers of a model from scratch; 4 if not given")
    hidden_size: int | None = _option(None, "width of a model from scratch, in heads of 32; 256 if not given")
    tokenizer: str | None = _option(None, "checkpoint whose vocabulary a model from scratch takes; else one is trained")
    data: str | None = _option(None, "chat JSONL, each line ending with an assistant turn; else synthetic problems")
    examples: int = _option(100_000, "synthetic problems to generate")
    data_seed: int = _option(0, "which synthetic problems")
    drill_share: float = _option(0.0, "share of the synthetic data that drills recall from the prompt")
    epochs: float = _option(1.0, "passes over the data (5 a stage in the paper)")
    block_size: int = _option(8, "masks per block (paper: 4, 8 and 16)")
    sft_loss: bool = _option(True, "train on L_mask alone: the share of AR-like signal falls from (1 + 1/B)/2 to 1/B")
    batch_size: int = _option(48, "sequences per device and forward pass")
    gradient_accumulation: int = _option(1, "forward passes per optimizer step")
    optimizer: Literal["adamw", "muon"] = _option("adamw", "muon: fewer steps from scratch")
    learning_rate: float = _option(5e-6, "peak; cosine to 0 (paper: 5e-6; from scratch: 2e-3)")
    warmup_share: float = _option(0.03, "share of the steps in which the rate rises")
    weight_decay: float = _option(0.0, "decoupled weight decay")
    max_length: int = _option(512, "limit of a sequence in tokens; a longer one is an error")
    precision: Literal["bf16", "fp32"] = _option("bf16", "bf16 autocast over float32 weights, or float32")
    seed: int = _option(0, "of the weights and the order of the data")
    save_steps: int = _option(500, "optimizer steps between saves to resume from")
    resume: bool = _option(False, "go on from the last save in OUTPUT/work")

    def __post_init__(self) -> None:
        counts = ("batch_size", "gradient_accumulation", "max_length", "save_steps")
        _at_least(self, 1, "block_size", "examples", *counts, "layers")
        _positive(self, "learning_rate", "epochs")
        _check(self, f"between 0 and {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED, "seed", "data_seed")
        _check(self, ">= 0 and < 1", lambda value: 0 <= value < 1, "drill_share", "warmup_share")
        if self.masks and self.checkpoint is None:
            raise ValueError(f"stage {self.stage} starts from an SFT checkpoint: give --checkpoint DIR_OR_ID")
        if self.max_length % self.block_size and self.masks:
            raise ValueError(f"max_length must be a multiple of block_size {self.block_size}, got {self.max_length}")
        for name in ("layers", "hidden_size", "tokenizer"):
            if self.checkpoint is not None and getattr(self, name) is not None:
                given = f"got {getattr(self, name)} with checkpoint {self.checkpoint}"
                raise ValueError(f"{name} is for a model from scratch, {given}: give one or the other")
        rule = f"a multiple of {HEAD_SIZE}, the head size"
        _check(self, rule, lambda value: value >= HEAD_SIZE and not value % HEAD_SIZE, "hidden_size")

    @property
    def masks(self) -> bool:
        """Whether the stage trains the mask token, in blocks of `block_size`."""
        return self.stage == "mars"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillSettings:
    """Settings of `distill`."""

    output: str = _option(MISSING, "JSONL file; the same command goes on after an interruption")
    prompts: tuple[str, ...] = _option((), "JSONL (FILE:FIELD names the text's field, prompt if not) or plain text")
    self_prompts: int = _option(0, "prompts that the model writes itself (Magpie)")
    second_turns: float = _option(0.1, "share of conversations with a second turn, which the model asks itself")
    places: int = _option(64, "conversations written at once")
    max_prompt_tokens: int = _option(448, "longer prompts are left out")
    max_new_tokens: int = _option(256, "limit of an answer")
    temperature: float = _option(0.8, "of the model's own prompts; answers are greedy")
    seed: int = _option(0, "of the model's own prompts")

    def __post_init__(self) -> None:
        _at_least(self, 1, "places", "max_prompt_tokens", "max_new_tokens")
        _at_least(self, 0, "self_prompts", "temperature")
        _check(self, "between 0 and 1", lambda value: 0 <= value <= 1, "second_turns")
        _check(self, f"between 0 and {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED, "seed")
        if not self.prompts and not self.self_prompts:
            raise ValueError("there is nothing to write: give --prompts FILE, or --self-prompts N")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """Settings of `pair`: an SFT adapter and a MARS adapter on it, in the folders `sft` and `mars` of `output`."""

    output: str = _option(MISSING, "folder of data and adapters; the same command goes on after an interruption")
    base: str = _option("smollm2-135m", f"{SOURCES} to start from")
    data: tuple[str, ...] = _option((), "JSONL of more conversations for SFT, with known answers")
    prompts: tuple[str, ...] = _option((), "more prompts for MARS, as of distill")
    problems: int = _option(6000, "synthetic problems for each stage")
    self_prompts: int = _option(3000, "prompts that the model writes itself, for each stage")
    sft_minutes: float = _option(30.0, "training of stage 1")
    mars_minutes: float = _option(120.0, "training of stage 2")
    pause_after: float | None = _option(None, "minutes after which this call saves and ends")
    sft_weight: float = _option(4.0, "stage 2: weight of what keeps the text without masks")
    own_block: float = _option(0.33, "stage 2: last share, in which masks learn what stage 1 says to their own tokens")
    sft_rank: int = _option(8, "rank of stage 1's LoRA")
    rank: int = _option(8, "rank of stage 2's")
    masks: int = _option(5, "masks of a group")
    anchors: int = _option(640, "groups of masks in a sequence and step")
    batch_size: int = _option(6, "sequences per process and forward pass")
    places: int = _option(64, "conversations written at once")
    max_length: int = _option(480, "tokens of a conversation that are read; the rest is left out")
    seed: int = _option(0, "of data, weights and order")

    def __post_init__(self) -> None:
        _at_least(self, 1, "problems", "sft_rank", "rank", "anchors", "batch_size", "places", "max_length")
        _at_least(self, 3, "masks")
        _at_least(self, 0, "self_prompts")
        _positive(self, "sft_minutes", "mars_minutes", "sft_weight", "pause_after")
        _check(self, f"between 0 and {2**18 - 1}", lambda value: 0 <= value < 2**18, "seed")
        _check(self, "between 0 and 1", lambda value: 0 <= value <= 1, "own_block")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """One run. `masks` is K; their loss has weight 1. With `minutes` the clock sets the schedule, not `epochs`."""

    base: str = _option(MISSING, f"{SOURCES}: the model, or an adapter of plain SFT on one, beside OUTPUT")
    data: tuple[str, ...] = _option(MISSING, "JSONL files written by distill")
    output: str = _option(MISSING, "folder of the adapter; steps to resume from go to OUTPUT/work")
    sft_weight: float = _option(1.0, "weight of what keeps the text without masks; 0 trains masks alone")
    own_block: float = _option(0.0, "last share, in which masks learn what the base says to their own tokens")
    masks: int = _option(6, "masks of a group; 0 is plain SFT of a LoRA, to compare with")
    block_size: int | None = _option(None, "what decoders take unless told otherwise; masks + 1 if not given")
    rank: int = _option(16, "rank of the LoRA on all seven linears")
    anchors: int = _option(64, "groups of masks in a sequence and step")
    keep: float = _option(0.8, "probability that a group goes on after each of its masks")
    batch_size: int = _option(4, "sequences per process and forward pass")
    gradient_accumulation: int = _option(1, "forward passes per optimizer step")
    learning_rate: float = _option(1e-3, "peak; cosine to 0")
    warmup_share: float = _option(0.03, "share of the steps in which the rate rises")
    epochs: float = _option(1.0, "passes over the conversations; anchors are drawn anew in each")
    minutes: float | None = _option(None, "train so long instead, over all calls; the rate falls with the time")
    pause_after: float | None = _option(None, "minutes after which this call saves and ends, where --minutes are more")
    max_length: int = _option(640, "tokens of a conversation that are read; the rest is left out")
    seed: int = _option(0, "of the weights, the order of the data and the anchors")
    save_steps: int = _option(100, "optimizer steps between saves to resume from")
    resume: bool = _option(False, "go on from the last save in OUTPUT/work")

    def __post_init__(self) -> None:
        _at_least(self, 0, "masks", "sft_weight")
        _at_least(self, 1, "rank", "anchors", "batch_size", "gradient_accumulation", "save_steps")
        _at_least(self, 16, "max_length")
        _positive(self, "learning_rate", "epochs", "minutes", "pause_after")
        _check(self, "between 0 and 1", lambda value: 0 <= value <= 1, "keep", "own_block")
        _check(self, f"between 0 and {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED, "seed")
        if not self.masks and (self.own_block or self.block_size is not None):
            raise ValueError("masks 0 is plain SFT, without blocks: give no block-size and no own-block")
        if self.block_size is not None and not 2 <= self.block_size <= self.masks + 1:
            raise ValueError(f"block_size must be between 2 and masks + 1 = {self.masks + 1}, got {self.block_size}")
        if self.pause_after is not None and self.minutes is None:
            raise ValueError("pause_after is for training by the clock: give minutes too")
