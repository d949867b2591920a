"""An adapter's folder, its base, and the model that the two make: a plain MARS checkpoint that every decoder runs.

A folder is in PEFT's LoRA format, with these files beside it:

    adapter_config.json, adapter_model.safetensors    the pairs A, B of each linear layer, any subset of them
    masks.safetensors                                 mask_embeddings [1, E], the row of `<|mask|>`
    mars.json                                         the training record, which says what base it was trained on

One of stage `sft` was trained without masks, to compare with, and has no masks.safetensors. Another may be trained on
it: its record has, under `below`, the fingerprint of those weights, which lie in a folder beside it and act too.

Shapes: E hidden size, I and O input and output features of a linear layer, S rank.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars.chat import MASK_TOKEN
from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.errors import CheckpointError, Progress, failing
from mars.checkpoint.sources import ADAPTER_CONFIG, RECORD_FILE, adapter_base, locate, weights_digest
from mars.checkpoint.weights import AGAIN, read_json
from mars.engine.linear import LINEARS, linear_of
from mars.lines import object_in

WEIGHTS_FILE = "adapter_model.safetensors"
MASKS_FILE = "masks.safetensors"
_KEY = re.compile(r"(?:.*\.)?layers\.(\d+)\.(self_attn|mlp)\.(\w+)\.lora_([AB])(?:\.default)?\.weight")
_MERGE = "merge it into its base (PEFT's merge_and_unload) and train masks on the result: docs/adapters.md"


@dataclass(frozen=True, slots=True)
class LowRank:
    """What is added to a linear layer's weights: `scale` · B A, A [S, I], B [O, S]."""

    a_SI: torch.Tensor
    b_OS: torch.Tensor
    scale: float


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter. `layers` maps, layer by layer, the names of `LINEARS` to their pairs; layers without any are empty.

    `mask_1E` is the embedding of the mask, None if it was trained without.
    """

    name: str
    layers: tuple[Mapping[str, LowRank], ...]
    mask_1E: torch.Tensor | None


def load_adapter(folder: str | Path) -> Adapter:
    """The adapter in `folder`, with the one below it, if any, on the CPU, in the dtypes of its files."""
    folder = Path(folder).expanduser()
    _check_ours(folder)
    _check_there(folder, ADAPTER_CONFIG, WEIGHTS_FILE)
    record = read_json(folder / RECORD_FILE)
    stage, mode = record.get("stage"), record.get("mode")
    if stage not in ("adapter", "sft") or mode != "merged":
        rule = "stage must be 'adapter' or 'sft', and mode 'merged' (gated ones run at commit 4ebfdf5)"
        raise CheckpointError(f"{folder / RECORD_FILE}: {rule}, got {stage!r} and {mode!r}")
    layers = _layers(folder / WEIGHTS_FILE, *_scaling(folder / ADAPTER_CONFIG))
    if (below := adapter_below(folder)) is not None:
        both = zip_longest(layers, load_adapter(below).layers, fillvalue=dict[str, LowRank]())
        layers = tuple(_together(own, other) for own, other in both)
    if stage == "sft":
        return Adapter(folder.resolve().name, layers, None)
    _check_there(folder, MASKS_FILE)
    mask = _tensors(folder / MASKS_FILE).get("mask_embeddings")
    if mask is None or mask.dim() != 2 or len(mask) != 1:
        got = "none" if mask is None else list(mask.shape)
        raise CheckpointError(f"{folder / MASKS_FILE}: mask_embeddings must be [1, hidden size], got {got}")
    return Adapter(folder.resolve().name, layers, mask)


def adapter_below(folder: Path) -> Path | None:
    """The folder, beside `folder`, of the adapter of plain SFT that the one in it was trained on, if it was on any."""
    wanted = read_json(folder / RECORD_FILE).get("below")
    if wanted is None:
        return None
    with failing(f"the folders beside {folder} cannot be read", "move it to others", OSError):
        for file in sorted(folder.resolve().parent.glob(f"*/{WEIGHTS_FILE}")):
            record = object_in(file.parent / RECORD_FILE)
            if record.get("stage") == "sft" and "below" not in record and weights_digest([file]) == wanted:
                return file.parent
    raise CheckpointError(
        f"the adapter {folder.name} was trained on one of plain SFT, whose weights have the fingerprint {wanted}, and "
        "no folder beside it has that: copy it there"
    )


def _together(own: Mapping[str, LowRank], below: Mapping[str, LowRank]) -> dict[str, LowRank]:
    """The pairs of a layer's two adapters, as one adapter with the sum of both ranks."""
    layer = {**below, **own}
    for name in own.keys() & below.keys():
        mine, other = own[name], below[name]
        a_SI = torch.cat((mine.a_SI, other.a_SI.to(mine.a_SI)))
        b_OS = torch.cat((mine.b_OS, other.b_OS.to(mine.b_OS) * (other.scale / mine.scale)), 1)
        layer[name] = LowRank(a_SI, b_OS, mine.scale)
    return layer


def _check_ours(folder: Path) -> None:
    """Raise CheckpointError for an adapter without masks, or one in a form that is not read."""
    if (folder / ADAPTER_CONFIG).is_file() and not (folder / RECORD_FILE).is_file():
        raise CheckpointError(f"{folder} is a plain LoRA adapter of PEFT, without masks ({RECORD_FILE}): {_MERGE}")
    pickled = (folder / WEIGHTS_FILE).with_suffix(".bin")
    if pickled.is_file() and not (folder / WEIGHTS_FILE).is_file():
        raise CheckpointError(f"{pickled} is a pickle, which may hold code: save the adapter as safetensors")


def _check_there(folder: Path, *files: str) -> None:
    for file in files:
        if not (folder / file).is_file():
            raise CheckpointError(f"{folder / file} is missing: an adapter's folder needs it, so copy it there")


def _scaling(path: Path) -> tuple[int, float]:
    """The rank, and alpha / rank, by PEFT's config."""
    config = read_json(path)
    rank, alpha = config.get("r"), config.get("lora_alpha", math.nan)
    if type(rank) is not int or rank < 1 or type(alpha) not in (int, float) or not 0 < alpha < math.inf:
        raise CheckpointError(f"{path}: r must be >= 1 and lora_alpha > 0, got {rank!r} and {alpha!r}")
    return rank, alpha / rank


def _layers(path: Path, rank: int, scale: float) -> tuple[Mapping[str, LowRank], ...]:
    weights: dict[tuple[int, str], dict[str, torch.Tensor]] = {}
    for key, weight in _tensors(path).items():
        match = _KEY.fullmatch(key)
        if match is None or LINEARS.get(match[3]) != match[2] or len(match[1]) > 5:
            raise CheckpointError(f"{path} holds {key}, which is no LoRA weight of {', '.join(LINEARS)}: {_MERGE}")
        weights.setdefault((int(match[1]), match[3]), {})[match[4]] = weight
    if not weights:
        raise CheckpointError(f"{path} holds no LoRA weights: save the trained adapter again")
    layers: list[dict[str, LowRank]] = [{} for _ in range(1 + max(number for number, _ in weights))]
    for (number, name), pair in weights.items():
        if pair.keys() != {"A", "B"}:
            raise CheckpointError(f"{path} lacks lora_{'AB'['A' in pair]} of {name} in layer {number}: save it again")
        shapes = [list(pair[letter].shape) for letter in "AB"]
        if [len(shape) for shape in shapes] != [2, 2] or not rank == shapes[0][0] == shapes[1][1]:
            raise CheckpointError(
                f"{path}: lora_A and lora_B of {name} in layer {number} must be [{rank}, in] and [out, {rank}], as "
                f"{ADAPTER_CONFIG} says, got {shapes[0]} and {shapes[1]}"
            )
        layers[number][name] = LowRank(pair["A"], pair["B"], scale)
    return tuple(layers)


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    with failing(f"{path} is broken", AGAIN, SafetensorError, OSError):
        return load_file(path)


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter, whole or not."""
    return (folder / ADAPTER_CONFIG).is_file()


def find_base(
    folder: Path, base: str | None = None, *, allow_other_base: bool = False, progress: Progress | None = None
) -> Path:
    """The folder of the base of the adapter in `folder`: of the source `base`, or else of the one it was trained on.

    CheckpointError where it cannot be read, or its weights are others and `allow_other_base` is False.
    """
    _check_ours(folder)
    source = base or adapter_base(folder)
    if source is None:
        raise CheckpointError(f"{folder / RECORD_FILE} names no base: give it with --base")
    try:
        found, _ = locate(source, progress)
    except CheckpointError as error:
        give = "" if base else "; --base gives the place where it is now"
        raise CheckpointError(f"the base of the adapter {folder.name} cannot be read: {error}{give}") from error
    if is_adapter(found):
        raise CheckpointError(f"the base of the adapter {folder.name} must be a whole model, {source} is an adapter")
    if not allow_other_base:
        _check_fingerprint(folder, found, source)
    return found


def weights_folder(source: str | Path, base: str | None = None) -> Path:
    """The folder that holds whole weights: that of a checkpoint, or of the base if it is an adapter."""
    folder, _ = locate(source)
    return find_base(folder, base, allow_other_base=True) if is_adapter(folder) else folder


def _check_fingerprint(folder: Path, base: Path, source: str) -> None:
    trained_on = read_json(folder / RECORD_FILE).get("base")
    wanted = trained_on.get("fingerprint") if isinstance(trained_on, dict) else None
    if not isinstance(wanted, str):
        raise CheckpointError(
            f"{folder / RECORD_FILE}: base must have the fingerprint of the weights it was trained on, got {wanted!r}: "
            "train it again, or go on with --allow-other-base"
        )
    with failing(f"the weights in {base} cannot be read", "download them again", OSError, SafetensorError):
        found = known_fingerprint(base)
    if found != wanted:
        raise CheckpointError(
            f"the adapter {folder.name} was trained on weights with the fingerprint {wanted[:16]}, those of {source} "
            f"have {found[:16]}: give its own base with --base, or go on with --allow-other-base"
        )


def merge(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, adapter: Adapter) -> None:
    """Add the adapter to the weights of a model, float32, and its mask embedding, if any, to the vocabulary.

    The mask becomes the token `<|mask|>`.
    """
    layers, size = model.base_model.layers, model.config.hidden_size
    if len(adapter.layers) > len(layers):
        raise _misfit(adapter, f"it has weights for {len(adapter.layers)} layers, the base has {len(layers)}")
    if adapter.mask_1E is not None and adapter.mask_1E.shape[1] != size:
        raise _misfit(adapter, f"its mask has {adapter.mask_1E.shape[1]} numbers, a token of the base {size}")
    with torch.no_grad():
        for layer, pairs in zip(layers, adapter.layers, strict=False):
            for name, pair in pairs.items():
                weight_OI, change_OI = linear_of(layer, name).weight, pair.b_OS.float() @ pair.a_SI.float()
                if change_OI.shape != weight_OI.shape:
                    raise _misfit(adapter, f"it changes {name} as {list(change_OI.shape)}, not {list(weight_OI.shape)}")
                weight_OI.add_(change_OI, alpha=pair.scale)
        if adapter.mask_1E is not None:
            _add_mask(model, tokenizer, adapter.mask_1E[0].float())


def _misfit(adapter: Adapter, why: str) -> CheckpointError:
    return CheckpointError(f"the adapter {adapter.name} does not fit this base: {why}; give the one it was trained on")


def _add_mask(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, embedding_E: torch.Tensor) -> None:
    """The row of `<|mask|>`, a spare or a new one; it is never proposed, so an untied vocabulary matrix gets zeros."""
    if MASK_TOKEN not in tokenizer.get_vocab():
        tokenizer.add_special_tokens({"mask_token": MASK_TOKEN})
    number = tokenizer.get_vocab()[MASK_TOKEN]
    if number >= model.config.vocab_size:
        model.resize_token_embeddings(number + 1, mean_resizing=False)
    head = model.get_output_embeddings().weight
    if head is not model.get_input_embeddings().weight:
        head[number] = 0.0
    model.get_input_embeddings().weight[number] = embedding_E
