"""A source in (mars/checkpoint/sources.py), an engine and a tokenizer out. No code from a checkpoint is ever run.

Four kinds are read: ours (a Hugging Face folder with the training record `mars.json`), our adapters
(mars/checkpoint/adapter.py), any Qwen2 or Llama checkpoint, and the published MARS format: `a2d-qwen2` weights are
plain Qwen2 ones under a causal mask. A model trained by block diffusion is none and is refused.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from mars import decoders
from mars.chat import MASK_TOKEN, encode_beginning, encode_messages, encode_prompt, encode_text, end_of_turn
from mars.checkpoint.adapter import find_base, is_adapter, load_adapter, merge
from mars.checkpoint.calibration import scores_of
from mars.checkpoint.errors import CheckpointError, Progress
from mars.checkpoint.sources import RECORD_FILE, locate
from mars.checkpoint.weights import count_weights, load_model, load_tokenizer, read_config, read_json, shared_model
from mars.config import DEFAULT_BLOCK_SIZE, DEVICES, DTYPES, MAX_BLOCK_SIZE, DecodingSettings
from mars.control import Control
from mars.decoders import Needs
from mars.decoding.pair import Pair
from mars.decoding.service import Stream, service_of
from mars.engine import Engine, ModelEngine
from mars.engine.backends import can_be_invariant
from mars.engine.workers import release

__all__ = ["Checkpoint", "CheckpointError", "load_checkpoint"]

SMALL = 2**24  # weights of a model that float32 serves as well on a CPU, and that may be held twice
STAGES = ("sft", "mars", "adapter")
_PUBLISHED_BLOCK = re.compile(r"blk(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A loaded model. `record` is the training record, empty if the folder has none; `block_size` comes from it, or
    from the name of a published checkpoint (`…-blk8`). `dtype` is that of the weights, as torch names it.
    `engine.mask_token_id` is None unless masks were trained.
    """

    name: str
    engine: Engine
    tokenizer: PreTrainedTokenizerBase
    block_size: int | None
    record: dict[str, Any]
    dtype: str = "float32"

    @property
    def usual_block_size(self) -> int:
        """`block_size`, or the default of a model that was trained with none."""
        return self.block_size or DEFAULT_BLOCK_SIZE

    @property
    def supports_masks(self) -> bool:
        """Whether the model was trained to fill masks behind a causal prefix, so that decoders can use them."""
        return self.engine.mask_token_id is not None

    @property
    def kinds(self) -> frozenset[Needs]:
        """The needs of decoders that the model meets."""
        return decoders.kinds(masks=self.supports_masks)

    @property
    def place(self) -> str:
        """The place of its passes: the device."""
        return str(self.engine.device)

    def encode(self, text: str) -> list[int]:
        """Token ids of one user turn, opened for the answer; control tokens in `text` are plain text."""
        return encode_prompt(self.tokenizer, text)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of turns (`role` and `content` each), opened for the answer; control tokens are plain text."""
        return encode_messages(self.tokenizer, messages)

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text that is no turn; control tokens in it are plain text."""
        return encode_text(self.tokenizer, text)

    def encode_beginning(self, text: str) -> list[int]:
        """The same of a text that stands alone: behind the beginning-of-sequence token where the model has one."""
        return encode_beginning(self.tokenizer, text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def submit(
        self,
        prompt: Sequence[int],
        settings: DecodingSettings,
        *,
        decoder: str = decoders.USUAL,
        control: Control | None = None,
    ) -> Stream:
        """Decode `prompt` (token ids) in passes that it shares with other streams of this checkpoint.

        ValueError where the decoder is unknown or cannot share passes, or the prompt is empty or does not fit.
        """
        return service_of(self.engine).submit(decoder, prompt, settings, control)


def load_checkpoint(
    source: str | Path,
    *,
    dtype: str = "auto",
    device: str = "auto",
    base: str | None = None,
    allow_other_base: bool = False,
    progress: Progress | None = None,
) -> Checkpoint:
    """Load a folder, a Hub id, a GGUF file, a named base or the folder of an adapter (mars/checkpoint/sources.py).

    `dtype` is auto, float32 or bfloat16 (`choose_dtype`). `device` is auto, cpu or cuda; auto is CUDA where there is
    one. `base` is the source of an adapter's base, by default the one it was trained on; one with other weights is
    refused without `allow_other_base`. `progress` reports how far it is.

    Checkpoints with the same weights, dtype and device share one `engine.model` as long as one of them is there: it is
    to be read, not to be changed. CheckpointError, one sentence that names the file at fault and what to do.
    """
    place = choose_device(device)
    choose_dtype(dtype, place)  # which refuses a wrong one before anything is downloaded
    folder, name = locate(source, progress)
    record = read_record(folder)
    home = (
        find_base(folder, base, allow_other_base=allow_other_base, progress=progress) if is_adapter(folder) else folder
    )
    model_type, config = read_config(home)
    kind = choose_dtype(dtype, place, config)
    if progress is not None:
        progress(f"loading the weights of {name}", 1.0)
    tokenizer = load_tokenizer(home, config.vocab_size)
    if home is folder:
        model = shared_model(home, kind, place, lambda: load_model(home, model_type, config, kind))
    else:
        adapter = load_adapter(folder)
        model = load_model(home, model_type, config, torch.float32)
        merge(model, tokenizer, adapter)
        model = model.to(place, kind)
    masks, block_size = mask_training(record, model_type, name)
    mask_token_id = tokenizer.get_vocab().get(MASK_TOKEN)
    if record and masks and mask_token_id is None:
        raise CheckpointError(f"{name} was trained to fill masks, and its tokenizer has no {MASK_TOKEN}: copy its own")
    stop_token_ids, template_ids = _special_tokens(home, tokenizer)
    engine = ModelEngine(
        model,
        stop_token_ids=stop_token_ids,
        template_ids=template_ids,
        mask_token_id=mask_token_id if masks else None,
        calibration=scores_of(record).pairs,
        compact=count_weights(model.config) > SMALL,
    )
    release()
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


def choose_dtype(dtype: str, device: torch.device, config: PreTrainedConfig | None = None) -> torch.dtype:
    """The dtype that auto, float32 or bfloat16 stands for on `device`, for a model of this architecture.

    auto is bfloat16 on CUDA, and on the CPU where there are kernels for it; float32 for models of up to 2**24 weights,
    and without `config`.
    """
    if dtype == "auto":
        if device.type == "cuda":
            return torch.bfloat16
        small = config is None or count_weights(config) <= SMALL
        return torch.bfloat16 if not small and can_be_invariant(device, torch.bfloat16, config) else torch.float32
    if dtype not in DTYPES:
        raise CheckpointError(f"dtype must be one of auto, {', '.join(DTYPES)}, got {dtype!r}")
    found: torch.dtype = getattr(torch, dtype)
    return found


def read_record(folder: Path) -> dict[str, Any]:
    """The training record of a folder; empty if it has none."""
    path = folder / RECORD_FILE
    if not path.is_file():
        return {}
    record = read_json(path)
    if record.get("stage") == "block_diffusion":
        raise CheckpointError(f"{folder} was trained by block diffusion: commits up to 4ebfdf5 decode with it")
    if record.get("stage") not in STAGES:
        raise CheckpointError(
            f"{path}: stage must be one of {', '.join(STAGES)}, got {record.get('stage')!r}; train it again"
        )
    block_size = record.get("block_size")
    if record["stage"] != "sft" and (type(block_size) is not int or not 1 <= block_size <= MAX_BLOCK_SIZE):
        raise CheckpointError(f"{path}: block_size must be 1 to {MAX_BLOCK_SIZE}, got {block_size!r}; train it again")
    try:
        scores_of(record)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; calibrate it again") from None
    return record


def mask_training(record: dict[str, Any], model_type: str, name: str) -> tuple[bool, int | None]:
    """Whether masks behind a causal prefix were trained, and the block size of the training.

    Published folders carry no record; the AR ones share the MARS config and say so in their name only.
    """
    if record:
        return record["stage"] in ("mars", "adapter"), record.get("block_size")
    published = _PUBLISHED_BLOCK.search(name)
    block_size = int(published[1]) if published and 1 <= int(published[1]) <= MAX_BLOCK_SIZE else None
    return block_size is not None or (model_type == "a2d-qwen2" and "AR-SFT" not in name), block_size


def _special_tokens(folder: Path, tokenizer: PreTrainedTokenizerBase) -> tuple[frozenset[int], frozenset[int]]:
    """Those that end a turn by the model's files or the tokenizer, and the others."""
    found: set[int | None] = {tokenizer.eos_token_id}
    with suppress(ValueError):  # a model without an end, or whose template takes other turns
        found.add(end_of_turn(tokenizer)[-1])
    for file in ("config.json", "generation_config.json"):
        named = read_json(folder / file).get("eos_token_id") if (folder / file).is_file() else None
        ids = named if isinstance(named, list) else [named]
        if not all(stop is None or isinstance(stop, int) for stop in ids):
            raise CheckpointError(
                f"{folder / file}: eos_token_id must be a token id or a list of them, got {named!r:.60}"
            )
        found.update(ids)
    stops = frozenset(stop for stop in found if stop is not None)
    return stops, frozenset(tokenizer.all_special_ids) - stops


def load(options: argparse.Namespace) -> Checkpoint:
    """The checkpoint that the options of a command name; with --draft, which only some decoders take, a pair."""
    name = options.decoder
    needed = name in decoders.TABLE and decoders.TABLE[name].draft
    if needed and options.draft is None:
        raise ValueError(f"--decoder {name} needs --draft DIR: a smaller checkpoint with the same vocabulary")
    if not needed and options.draft is not None:
        raise ValueError(f"--draft is for --decoder {decoders.names(decoders.drafted())}, got --decoder {name}")
    return load_pair(options)


def load_pair(options: argparse.Namespace) -> Checkpoint:
    """The checkpoint of --checkpoint, with --draft as a pair, whatever decoder is to use it."""
    target = load_source(options.checkpoint, options)
    return target if options.draft is None else paired(target, load_source(options.draft, options))


def load_source(source: str, options: argparse.Namespace) -> Checkpoint:
    """The checkpoint of a source as --dtype, --device, --base and --allow-other-base say, if given."""
    names = ("dtype", "device", "base", "allow_other_base")
    return load_checkpoint(source, **{name: getattr(options, name) for name in names if hasattr(options, name)})


def paired(target: Checkpoint, draft: Checkpoint) -> Checkpoint:
    """The target with an engine of both models, for speculative decoding.

    ValueError where their vocabularies differ, or they are on different devices.
    """
    # Token ids pass between the two, so a token that both know has the same id in both.
    known = target.tokenizer.get_vocab()
    for token, number in draft.tokenizer.get_vocab().items():
        if known.get(token, number) != number:
            raise CheckpointError(
                f"the draft {draft.name} has another vocabulary than {target.name}: {token!r} is {number} in one and "
                f"{known[token]} in the other; take a draft with the same tokenizer"
            )
    return replace(target, engine=Pair(target.engine, draft.engine, same_tokens=True))
