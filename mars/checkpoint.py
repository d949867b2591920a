"""Checkpoints: a local folder or a Hub id in, an engine and a tokenizer out. No code from a checkpoint is ever run.

Three kinds are read: ours (a Hugging Face folder with the training record `mars.json`), any Qwen2 or Llama checkpoint,
and the published MARS format, whose `a2d-qwen2` weights are plain Qwen2 weights driven with a causal mask. A model
trained by block diffusion is no causal model, and its engine says so; the published one is not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from mars.chat import MASK_TOKEN, TURN_END, encode_prompt
from mars.engine import Engine, ModelEngine
from mars.weights import CheckpointError, load_model, load_tokenizer, locate, read_config, read_json

__all__ = ["Checkpoint", "CheckpointError", "load_checkpoint"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
DEVICES = ("auto", "cpu", "cuda")
RECORD_FILE = "mars.json"
STAGES = ("sft", "mars", "block_diffusion")
_PUBLISHED_BLOCK = re.compile(r"blk(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A loaded model. `record` is the training record, empty if the folder has none; `block_size` comes from it, or
    from the name of a published checkpoint (`…-blk8`). `dtype` is that of the weights, as torch names it.
    `engine.mask_token_id` is None unless masks were trained, `engine.diffusion_mask_id` unless by block diffusion.
    """

    name: str
    engine: Engine
    tokenizer: PreTrainedTokenizerBase
    block_size: int | None
    record: dict[str, Any]
    dtype: str = "float32"

    @property
    def supports_masks(self) -> bool:
        """Whether the model was trained to fill masks behind a causal prefix, so that decoders can use them."""
        return self.engine.mask_token_id is not None

    def encode(self, text: str) -> list[int]:
        """Token ids of one user turn, opened for the answer; control tokens in `text` are plain text."""
        return encode_prompt(self.tokenizer, text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def load_checkpoint(source: str | Path, *, dtype: str = "auto", device: str = "auto") -> Checkpoint:
    """Load a folder or a Hub id.

    `dtype` is auto, float32 or bfloat16; auto is bfloat16 on CUDA and float32 on the CPU. `device` is auto, cpu or
    cuda; auto is CUDA where there is one.

    Raises:
        CheckpointError: one sentence that names the file at fault and what to do.
    """
    place = choose_device(device)
    kind = choose_dtype(dtype, place)
    folder, name = locate(source)
    record = read_record(folder)
    model_type, config = read_config(folder)
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) > config.vocab_size:
        raise CheckpointError(
            f"{folder / 'tokenizer.json'} has {len(tokenizer)} tokens, but config.json says vocab_size "
            f"{config.vocab_size}: take the tokenizer that belongs to these weights"
        )
    trained, block_size = mask_training(record, model_type, name)
    mask_token_id = tokenizer.get_vocab().get(MASK_TOKEN)
    model = load_model(folder, model_type, config, kind).to(place)
    engine = ModelEngine(
        model,
        stop_token_ids=_stop_token_ids(folder, tokenizer),
        mask_token_id=mask_token_id if trained else None,
        diffusion_mask_id=mask_token_id if by_block_diffusion(record, name) else None,
    )
    return Checkpoint(
        name=name,
        engine=engine,
        tokenizer=tokenizer,
        block_size=block_size,
        record=record,
        dtype=str(kind).removeprefix("torch."),
    )


def choose_device(device: str) -> torch.device:
    """The device that auto, cpu or cuda stands for here; auto is CUDA where there is one."""
    if device not in DEVICES:
        raise CheckpointError(f"device must be one of {', '.join(DEVICES)}, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise CheckpointError("device cuda: PyTorch finds no CUDA device here; use --device cpu")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def choose_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """The dtype that auto, float32 or bfloat16 stands for on `device`; auto is bfloat16 on CUDA, else float32."""
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise CheckpointError(f"dtype must be one of auto, {', '.join(DTYPES)}, got {dtype!r}")
    return DTYPES[dtype]


def read_record(folder: Path) -> dict[str, Any]:
    """The training record of a folder; empty if it has none.

    Raises:
        CheckpointError: it is not what our training writes.
    """
    path = folder / RECORD_FILE
    if not path.is_file():
        return {}
    record = read_json(path)
    if record.get("stage") not in STAGES:
        raise CheckpointError(
            f"{path}: stage must be one of {', '.join(STAGES)}, got {record.get('stage')!r}; train it again"
        )
    block_size = record.get("block_size")
    if record["stage"] != "sft" and (not isinstance(block_size, int) or block_size < 1):
        raise CheckpointError(f"{path}: block_size must be a whole number >= 1, got {block_size!r}; train it again")
    return record


def mask_training(record: dict[str, Any], model_type: str, name: str) -> tuple[bool, int | None]:
    """Whether masks behind a causal prefix were trained, and the block size of the training.

    Published folders carry no record; the AR ones share the MARS config and say so in their name only.
    """
    if record:
        return record["stage"] == "mars", record.get("block_size")
    published = _PUBLISHED_BLOCK.search(name)
    block_size = int(published[1]) if published else None
    if by_block_diffusion(record, name):
        return False, block_size
    return block_size is not None or (model_type == "a2d-qwen2" and "AR-SFT" not in name), block_size


def by_block_diffusion(record: dict[str, Any], name: str) -> bool:
    """Whether the model was trained by block diffusion; the published one says so in its name only."""
    return record["stage"] == "block_diffusion" if record else "BD3LM" in name


def _stop_token_ids(folder: Path, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every token that ends a turn according to the model's files or the tokenizer."""
    found: set[int | None] = {tokenizer.eos_token_id, tokenizer.get_vocab().get(TURN_END)}
    for file in ("config.json", "generation_config.json"):
        stops = read_json(folder / file).get("eos_token_id") if (folder / file).is_file() else None
        found.update(stops if isinstance(stops, list) else [stops])
    return frozenset(stop for stop in found if stop is not None)
