"""GGUF files of Llama and Qwen2 models, made into checkpoint folders: plain bfloat16 weights and the tokenizer.

Weights of 4 or 8 bits are written out in full: the same model, larger. `transformers` reads the configuration and the
tokenizer; its own reading of the weights, which reports no progress, is the slow twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedConfig

from mars.checkpoint.errors import CheckpointError, Progress
from mars.checkpoint.weights import MODELS, quiet, reason

ARCHITECTURES = ("llama", "qwen2")
_BROKEN = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, NotImplementedError)
_READ, _WEIGHTS, _TOKENIZER = 0.25, 0.65, 0.85
"""Shares of the work that are done when the file has been read, the weights have been converted, the tokenizer too."""


def convert(file: Path, folder: Path, progress: Progress) -> None:
    """Write the model of a GGUF file into a folder that is there and empty.

    Raises:
        CheckpointError: one sentence: no GGUF file of a Llama or Qwen2 model, or a broken one.
        OSError: the folder cannot be written.
    """
    reader = _open(file)
    _check(file, reader)
    progress(f"reading the configuration of {file.name}", _READ / 2)
    config = _config(file)
    with torch.device("meta"):
        wanted = {name: weight.shape for name, weight in MODELS[config.model_type][1](config).state_dict().items()}
    state = {}
    for number, (name, weight) in enumerate(_weights(file, reader, config, _names(config, wanted))):
        state[name] = weight
        share = _READ + (_WEIGHTS - _READ) * number / len(reader.tensors)
        progress(f"converting the weights of {file.name}", share)
    if config.tie_word_embeddings:
        wanted.pop("lm_head.weight", None)
    _check_complete(file, state, wanted)
    progress(f"reading the tokenizer of {file.name}", _WEIGHTS)
    tokenizer = _tokenizer(file)
    progress(f"saving {file.name}", _TOKENIZER)
    config.architectures, config.dtype = [MODELS[config.model_type][1].__name__], torch.bfloat16
    config.save_pretrained(folder)
    GenerationConfig.from_model_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    progress(f"saved {file.name}", 1.0)


def _open(file: Path) -> Any:
    from gguf import GGUFReader  # late: few checkpoints are such files

    try:
        return GGUFReader(file)
    except _BROKEN as error:
        raise _broken(file, error) from error


def _check(file: Path, reader: Any) -> None:
    """Raise CheckpointError for a model that the folder could not hold as it is."""
    field = reader.get_field("general.architecture")
    architecture = field.contents() if field else None
    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{file} holds a model of architecture {architecture!r}, only {' and '.join(ARCHITECTURES)} can be read: "
            "take such a model"
        )
    scaling = reader.get_field(f"{architecture}.rope.scaling.type")
    scaled = scaling is not None and scaling.contents() != "none"
    if scaled or any(tensor.name == "rope_freqs.weight" for tensor in reader.tensors):
        raise CheckpointError(
            f"{file} scales its rotary positions, which a GGUF file does not say in full: take the safetensors of the "
            "same model from the Hub"
        )


def _config(file: Path) -> PreTrainedConfig:
    try:
        with quiet():
            config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
    except _BROKEN as error:
        raise _broken(file, error) from error
    if config.model_type not in ARCHITECTURES:
        raise CheckpointError(f"{file} holds a {config.model_type} model: take a Llama or Qwen2 model")
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are plain ones from here on
    return config


def _weights(
    file: Path, reader: Any, config: PreTrainedConfig, names: dict[str, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and bfloat16 values of each weight, as `transformers` calls and orders them."""
    from gguf import dequantize

    for tensor in reader.tensors:
        name = names.get(tensor.name)
        if name is None:
            raise CheckpointError(f"{file} has a weight {tensor.name} that no {config.model_type} model has")
        try:
            weight = torch.tensor(dequantize(tensor.data, tensor.tensor_type))
        except _BROKEN as error:
            raise _broken(file, error) from error
        if config.model_type == "llama" and ".attn_q." in tensor.name:
            weight = _in_halves(weight, config.num_attention_heads)
        elif config.model_type == "llama" and ".attn_k." in tensor.name:
            weight = _in_halves(weight, config.num_key_value_heads)
        yield name, weight.to(torch.bfloat16).contiguous()


def _names(config: PreTrainedConfig, wanted: Iterable[str]) -> dict[str, str]:
    """What `transformers` calls each weight of a GGUF file, of those that the model has."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    architecture = next(number for number, name in MODEL_ARCH_NAMES.items() if name == config.model_type)
    known = get_tensor_name_map(architecture, config.num_hidden_layers)
    return {str(known.get_name(name, (".weight", ".bias"))): name for name in wanted}


def _in_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head in two halves, as `transformers` turns them; llama.cpp has the two of a pair side by side."""
    size = weight.shape[0] // heads
    return weight.view(heads, size // 2, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def _check_complete(file: Path, state: dict[str, torch.Tensor], wanted: dict[str, torch.Size]) -> None:
    wrong = sorted(name for name, shape in wanted.items() if name not in state or state[name].shape != shape)
    wrong += sorted(state.keys() - wanted.keys())
    if wrong:
        raise CheckpointError(
            f"{file} describes a model and has not its weights, {wrong[0]} is the first of {len(wrong)} wrong ones: "
            "download it again"
        )


def _tokenizer(file: Path) -> Any:
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
    except Exception as error:  # the tokenizers library raises no narrower kind
        raise CheckpointError(
            f"the tokenizer in {file} cannot be read ({reason(error)}): take another file of this model"
        ) from error


def _broken(file: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{file} is no whole GGUF file ({reason(error)}): copy or download it again")
