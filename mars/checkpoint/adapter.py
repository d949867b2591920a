"""An adapter's folder: in PEFT's LoRA format, with two files beside it.

    adapter_config.json, adapter_model.safetensors    the pairs A, B of each linear layer, any subset of them
    masks.safetensors                                 mask_embeddings [K, E]; with a head, head.up and head.down
    mars.json                                         the training record

Shapes are those of mars/engine/adapter.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from mars.checkpoint.errors import CheckpointError
from mars.checkpoint.sources import ADAPTER_CONFIG, ADAPTER_RECORD
from mars.checkpoint.weights import read_json
from mars.engine.adapter import LINEARS, Adapter, HeadWeights, LowRank

CONFIG_FILE, RECORD_FILE = ADAPTER_CONFIG, ADAPTER_RECORD
WEIGHTS_FILE = "adapter_model.safetensors"
MASKS_FILE = "masks.safetensors"
MODES = ("gated", "merged")
_KEY = re.compile(r"(?:.*\.)?layers\.(\d+)\.(self_attn|mlp)\.(\w+)\.lora_([AB])(?:\.default)?\.weight")
# What PEFT's LoRA can do beyond A and B, with the value under which it does not.
_PLAIN = {
    "use_dora": False,
    "use_qalora": False,
    "bias": "none",
    "lora_bias": False,
    "rank_pattern": {},
    "alpha_pattern": {},
    "modules_to_save": None,
    "trainable_token_indices": None,
    "target_parameters": None,
    "layer_replication": None,
    "alora_invocation_tokens": None,
}


def load_adapter(folder: str | Path) -> Adapter:
    """The adapter in `folder`, on the CPU, in the dtypes of its files.

    Raises:
        CheckpointError: one sentence that names the file at fault and what to do.
    """
    folder = Path(folder).expanduser()
    for file in (CONFIG_FILE, WEIGHTS_FILE, MASKS_FILE, RECORD_FILE):
        if not (folder / file).is_file():
            raise CheckpointError(f"{folder / file} is missing: an adapter's folder needs it, so copy it there")
    record = read_json(folder / RECORD_FILE)
    if record.get("stage") != "adapter" or record.get("mode") not in MODES:
        found = f"stage {record.get('stage')!r} and mode {record.get('mode')!r}"
        raise CheckpointError(
            f"{folder / RECORD_FILE}: stage must be 'adapter' and mode {' or '.join(MODES)}, got {found}"
        )
    layers = _layers(folder / WEIGHTS_FILE, _scale(folder / CONFIG_FILE))
    masks, head = _masks(folder / MASKS_FILE)
    adapter = Adapter(name=folder.resolve().name, layers=layers, mask_embeddings=masks, head=head, record=record)
    if adapter.candidates < 1:
        raise CheckpointError(f"{folder / RECORD_FILE}: candidates must be >= 1, got {adapter.candidates}")
    return adapter


def _scale(path: Path) -> float:
    """alpha / rank, by PEFT's config, which must ask for nothing but A and B."""
    config = read_json(path)
    if config.get("peft_type") != "LORA":
        raise CheckpointError(f"{path}: peft_type must be 'LORA', got {config.get('peft_type')!r}")
    for name, plain in _PLAIN.items():
        if (config.get(name) or plain) != plain:
            raise CheckpointError(f"{path}: {name} must be {plain!r}, got {config[name]!r}; train without it")
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not isinstance(rank, int) or rank < 1 or not isinstance(alpha, int | float):
        raise CheckpointError(f"{path}: r must be >= 1 and lora_alpha a number, got {rank!r} and {alpha!r}")
    return float(alpha / (math.sqrt(rank) if config.get("use_rslora") else rank))


def _layers(path: Path, scale: float) -> tuple[Mapping[str, LowRank], ...]:
    weights: dict[tuple[int, str], dict[str, torch.Tensor]] = {}
    for key, weight in _tensors(path).items():
        match = _KEY.fullmatch(key)
        if match is None or LINEARS.get(match[3]) != match[2]:
            raise CheckpointError(f"{path} holds {key}, which is no LoRA weight of {', '.join(LINEARS)}: remove it")
        weights.setdefault((int(match[1]), match[3]), {})[match[4]] = weight
    if not weights:
        raise CheckpointError(f"{path} holds no LoRA weights: save the trained adapter again")
    layers: list[dict[str, LowRank]] = [{} for _ in range(1 + max(number for number, _ in weights))]
    for (number, name), pair in weights.items():
        if pair.keys() != {"A", "B"}:
            raise CheckpointError(f"{path} lacks lora_{'AB'['A' in pair]} of {name} in layer {number}: save it again")
        shapes = [list(pair[letter].shape) for letter in "AB"]
        if [len(shape) for shape in shapes] != [2, 2] or shapes[0][0] != shapes[1][1]:
            raise CheckpointError(
                f"{path}: lora_A and lora_B of {name} in layer {number} must be [rank, in] and [out, rank], got "
                f"{shapes[0]} and {shapes[1]}"
            )
        layers[number][name] = LowRank(pair["A"], pair["B"], scale)
    return tuple(layers)


def _masks(path: Path) -> tuple[torch.Tensor, HeadWeights | None]:
    """The mask embeddings, and the head if there is one."""
    tensors = _tensors(path)
    masks, up, down = (tensors.get(name) for name in ("mask_embeddings", "head.up", "head.down"))
    if masks is None or masks.dim() != 2 or not len(masks):
        got = "none" if masks is None else list(masks.shape)
        raise CheckpointError(f"{path}: mask_embeddings must be [masks, hidden size], got {got}")
    if up is None and down is None:
        return masks, None
    size = masks.shape[1]
    shapes = [None if weight is None else list(weight.shape) for weight in (up, down)]
    if up is None or down is None or shapes != [[len(up), 2 * size], [size, len(up)]]:
        raise CheckpointError(
            f"{path}: head.up and head.down must be [hidden, {2 * size}] and [{size}, hidden], got {shapes[0]} and "
            f"{shapes[1]}"
        )
    return masks, HeadWeights(up, down)


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{path} is broken ({reason}): copy or download it again") from error
