"""The arguments of a call of `model.generate`, read: prompts, settings, the engine. See mars/hub.py."""

from __future__ import annotations

import copy
import logging
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from mars import decoders
from mars.chat import MASK_TOKEN
from mars.checkpoint.adapter import load_adapter
from mars.checkpoint.checkpoint import by_block_diffusion, mask_training, read_record
from mars.checkpoint.weights import load_tokenizer
from mars.config import MAX_SEED, SETTINGS, DecodingSettings
from mars.engine import ModelEngine
from mars.engine.adapter import Adapter
from mars.engine.network import weights_version
from mars.options import DEFAULT_BLOCK_SIZE, DEFAULT_ENTROPY

FROM_CONFIG = {*decoders.SAMPLING, "max_new_tokens", "use_cache"}
"""Settings that `generate` has names of its own for."""
OWN = tuple(name for name in SETTINGS if name not in FROM_CONFIG)
SUPPORTED = {"max_new_tokens", "max_length", "do_sample", "temperature", "top_p", "eos_token_id", "pad_token_id"}
SUPPORTED |= {"bos_token_id", "use_cache", "return_dict_in_generate", "mask_token_id"}
NEUTRAL_ONES = {"num_beams", "num_return_sequences", "repetition_penalty", "encoder_repetition_penalty", "typical_p"}
CHANGES_TEXT = ("repetition_penalty", "no_repeat_ngram_size", "min_new_tokens", "min_length", "bad_words_ids")
DEFAULT_NEW_TOKENS = 20

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """The engine of a model's last call, what it depends on, and the one beside it with the last adapter."""

    key: object
    engine: ModelEngine
    adapted: ModelEngine | None = None


_engines: weakref.WeakKeyDictionary[PreTrainedModel, _Known] = weakref.WeakKeyDictionary()
_adapters: dict[Path, tuple[tuple[tuple[str, int], ...], Adapter]] = {}


def read_config(
    model: PreTrainedModel, given: GenerationConfig | None, options: Mapping[str, Any]
) -> tuple[GenerationConfig, bool]:
    """The generation config of this call, and whether it says how long the text may become.

    Raises:
        ValueError: an option is unknown, or asks for what these decoders do not do.
    """
    passed = {name: value for name, value in options.items() if not _neutral(name, value)}
    refused = [name for name in passed if name not in SUPPORTED]
    if refused:
        raise ValueError(f"custom_generate of MARS does not take {', '.join(refused)}: leave it out, or see its README")
    base = model.generation_config if given is None else given
    config = copy.deepcopy(base)
    for name in SUPPORTED:
        if name in passed:
            setattr(config, name, passed[name])
        elif getattr(config, name, None) is None:
            setattr(config, name, getattr(model.generation_config, name, None))
    changing = [*CHANGES_TEXT, *(["top_k"] if config.do_sample else [])]
    ignored = [name for name in changing if not _neutral(name, getattr(base, name, None))]
    if ignored:
        _log.warning("not applied, although the generation config sets it: %s", ", ".join(ignored))
    bounded = "max_length" in passed or (config.max_length or DEFAULT_NEW_TOKENS) != DEFAULT_NEW_TOKENS
    return config, bounded


def read_prompts(
    ids: torch.Tensor | None, attention_mask: torch.Tensor | None, config: GenerationConfig, stops: frozenset[int]
) -> tuple[torch.Tensor, list[list[int]]]:
    """The ids [rows, tokens] as given, and row by row without the padding on their left.

    Without a mask a pad token in front is padding, as for `generate`, unless it ends texts too.

    Raises:
        ValueError: there are none, or the padding is not on the left.
    """
    if ids is None or ids.dim() != 2:
        raise ValueError("give input_ids [rows, tokens], as the tokenizer returns them with return_tensors='pt'")
    if attention_mask is None:
        pad = config.pad_token_id
        padding = torch.zeros_like(ids) if pad is None or int(pad) in stops else (ids == pad).long().cumprod(1)
        attention_mask = 1 - padding
    if attention_mask.shape != ids.shape:
        raise ValueError(f"attention_mask must be {list(ids.shape)}, as input_ids, got {list(attention_mask.shape)}")
    kept = attention_mask.bool()
    if not bool((kept == (kept.cumsum(1) > 0)).all()):
        raise ValueError("the padding must be on the left: set tokenizer.padding_side = 'left'")
    return ids, [row[mask].tolist() for row, mask in zip(ids, kept, strict=True)]


def read_settings(
    model: PreTrainedModel, config: GenerationConfig, own: Mapping[str, Any], seed: int | None, new_tokens: int
) -> DecodingSettings:
    """The decoding settings: those of MARS as given, the others from the generation config.

    Without a seed one is drawn from torch's generator, so that `torch.manual_seed` decides.
    """
    chosen = dict(own)
    if chosen.get("score") == "entropy":
        chosen.setdefault("threshold", DEFAULT_ENTROPY)
    if chosen.get("block_size") is None:
        chosen["block_size"] = _training(model)[1] or DEFAULT_BLOCK_SIZE
    if config.do_sample:
        chosen["temperature"] = 1.0 if config.temperature is None else config.temperature
        chosen["top_p"] = 1.0 if config.top_p is None else config.top_p
        chosen["seed"] = int(torch.randint(MAX_SEED, ())) if seed is None else seed
    use_cache = True if config.use_cache is None else bool(config.use_cache)
    return DecodingSettings(**chosen, max_new_tokens=new_tokens, use_cache=use_cache)


def stop_tokens(config: GenerationConfig) -> frozenset[int]:
    """The ids that end a text."""
    found = config.eos_token_id
    if found is None:
        return frozenset()
    return frozenset(torch.as_tensor(found).flatten().tolist())


def refuse_block_diffusion(model: PreTrainedModel, decoder: str) -> None:
    """Raise ValueError for its decoder, which is not offered here, and for models trained by it: none is causal."""
    folder = Path(model.name_or_path)
    if decoders.TABLE[decoder].needs == "diffusion" or by_block_diffusion(read_record(folder), folder.name):
        raise ValueError(
            "custom_generate of MARS is for causal models: decode one trained by block diffusion with "
            f"python -m mars.generate --decoder {_diffusing()}"
        )


def _diffusing() -> str:
    return " or ".join(decoder.name for decoder in decoders.TABLE.values() if decoder.needs == "diffusion")


def find_mask(model: PreTrainedModel, config: GenerationConfig, tokenizer: Any, decoder: str) -> int | None:
    """The mask token's id: that of the call or a config, else the tokenizer's, or of the folder the model came from.

    Raises:
        ValueError: the decoder needs masks and none is known to be trained.
    """
    for place in (config, model.config):
        if getattr(place, "mask_token_id", None) is not None:
            return int(place.mask_token_id)
    folder = Path(model.name_or_path)
    trained = _training(model)[0]
    if tokenizer is None and trained and (folder / "tokenizer.json").is_file():
        tokenizer = load_tokenizer(folder)
    if tokenizer is not None and (trained or not read_record(folder)):
        found = tokenizer.get_vocab().get(MASK_TOKEN)
        if found is not None:
            return int(found)
    if decoders.TABLE[decoder].needs != "masks":
        return None
    raise ValueError(
        f"{decoder} needs a model trained to fill masks, and this one is not known to be: pass mask_token_id (or "
        f"tokenizer) if it was, or take decoder={decoders.BASELINE!r}"
    )


def find_adapter(adapter: str | Path | Adapter | None, options: Mapping[str, Any]) -> Adapter | None:
    """The adapter of this call: one that is loaded, or that of a folder, which is read again when a file has changed.

    Raises:
        ValueError: the folder holds no adapter, or the call names a mask token too.
    """
    if adapter is None or isinstance(adapter, Adapter):
        found = adapter
    else:
        folder = Path(adapter).expanduser().resolve()
        stamp = tuple(sorted((str(file), file.stat().st_mtime_ns) for file in folder.glob("*.*")))
        if _adapters.get(folder, ((), None))[0] != stamp or not stamp:
            _adapters[folder] = stamp, load_adapter(folder)
        found = _adapters[folder][1]
    if found is not None and options.get("mask_token_id") is not None:
        raise ValueError("an adapter brings masks of its own: pass adapter or mask_token_id, not both")
    return found


def find_engine(
    model: PreTrainedModel, stops: frozenset[int], mask_token_id: int | None, adapter: Adapter | None = None
) -> ModelEngine:
    """An engine on this model: the one of the last call, unless weights, tokens or the adapter have changed since.

    Calls with and without the adapter share the weights, in whatever layout.
    """
    key = _key(model, stops, mask_token_id)
    known = _engines.get(model)
    if known is None or known.key != key:
        training = model.training
        engine = ModelEngine(model, stop_token_ids=stops, mask_token_id=mask_token_id)
        model.train(training)
        known = _engines[model] = _Known(_key(model, stops, mask_token_id), engine)
    if adapter is None:
        return known.engine
    if known.adapted is None or known.adapted.adapter is not adapter:
        known.adapted = known.engine.with_adapter(adapter)
    return known.adapted


def _key(model: PreTrainedModel, stops: frozenset[int], mask_token_id: int | None) -> object:
    return stops, mask_token_id, model.device, model.dtype, weights_version(model)


def _training(model: PreTrainedModel) -> tuple[bool, int | None]:
    record = read_record(Path(model.name_or_path))
    return mask_training(record, model.config.model_type, Path(model.name_or_path).name)


def _neutral(name: str, value: Any) -> bool:
    """Whether a value asks for nothing."""
    if value is None or (isinstance(value, list | tuple | dict) and not value):
        return True
    return name not in SUPPORTED and value == (1 if name in NEUTRAL_ONES else 0)
