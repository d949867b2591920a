"""An adapter's base: which one it is, whether it is the right one, and the model that the two make when merged.

A gated adapter acts at masks alone and is applied by the engine (mars/engine/adapter.py); a merged one becomes part of
the weights, and the model a plain MARS checkpoint that every decoder runs.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars.chat import MASK_TOKEN
from mars.checkpoint.adapter import CONFIG_FILE, RECORD_FILE
from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.errors import CheckpointError, Progress
from mars.checkpoint.sources import adapter_base, locate
from mars.checkpoint.weights import read_json, reason
from mars.engine.adapter import Adapter, linear_of


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter, whole or not."""
    return (folder / CONFIG_FILE).is_file()


def find_base(
    folder: Path, base: str | None = None, *, allow_other_base: bool = False, progress: Progress | None = None
) -> Path:
    """The folder of the base of the adapter in `folder`: of the source `base`, or else of the one it was trained on.

    Raises:
        CheckpointError: one sentence: it cannot be read, or its weights are others and `allow_other_base` is False.
    """
    source = base or adapter_base(folder)
    if source is None:
        raise CheckpointError(f"{folder / RECORD_FILE} names no base: give it with --base")
    try:
        found, _ = locate(source, progress)
    except CheckpointError as error:
        raise CheckpointError(f"the base of the adapter {folder.name} cannot be read: {error}") from error
    if is_adapter(found):
        raise CheckpointError(f"the base of the adapter {folder.name} must be a whole model, {source} is an adapter")
    if not allow_other_base:
        _check_fingerprint(folder, found, source)
    return found


def weights_folder(source: str | Path, base: str | None = None) -> Path:
    """The folder that holds whole weights: that of a checkpoint, or of the base if it is an adapter.

    Raises:
        CheckpointError: one sentence: it cannot be read.
    """
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
    try:
        found = known_fingerprint(base)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"the weights in {base} cannot be read ({reason(error)}): download them again") from error
    if found != wanted:
        raise CheckpointError(
            f"the adapter {folder.name} was trained on weights with the fingerprint {wanted[:16]}, those of {source} "
            f"have {found[:16]}: give its own base with --base, or go on with --allow-other-base"
        )


def merge(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, adapter: Adapter) -> None:
    """Add the adapter to the weights of a model, float32, and its mask embedding to the vocabulary as `<|mask|>`.

    Raises:
        CheckpointError: one sentence: the adapter does not fit this model, or has more masks than a vocabulary takes.
    """
    size = model.config.hidden_size
    if adapter.mask_embeddings.shape != (1, size):
        raise CheckpointError(
            f"the merged adapter {adapter.name} must have mask_embeddings [1, {size}], for the vocabulary takes one "
            f"mask, got {list(adapter.mask_embeddings.shape)}"
        )
    layers = model.base_model.layers
    if len(adapter.layers) > len(layers):
        raise _misfit(adapter, f"it has weights for {len(adapter.layers)} layers, the base has {len(layers)}")
    with torch.no_grad():
        for layer, pairs in zip(layers, adapter.layers, strict=False):
            for name, pair in pairs.items():
                weight_OI, change_OI = linear_of(layer, name).weight, pair.b_OS.float() @ pair.a_SI.float()
                if change_OI.shape != weight_OI.shape:
                    raise _misfit(adapter, f"it changes {name} as {list(change_OI.shape)}, not {list(weight_OI.shape)}")
                weight_OI.add_(change_OI, alpha=pair.scale)
        _add_mask(model, tokenizer, adapter.mask_embeddings[0].float())


def _misfit(adapter: Adapter, reason: str) -> CheckpointError:
    return CheckpointError(
        f"the adapter {adapter.name} does not fit this base: {reason}; give the one it was trained on"
    )


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
