"""The decoders for users of `transformers`: what `model.generate(custom_generate=…)` calls.

The options are documented in custom_generate/README.md. Without `transformers` loading code:
`mars.hub.generate(model, **inputs, threshold=0.95)`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel
from transformers.generation import GenerateDecoderOnlyOutput

from mars import decoders
from mars.chat import MASK_TOKEN
from mars.checkpoint.calibration import scores_of
from mars.checkpoint.checkpoint import mask_training, read_record
from mars.checkpoint.weights import load_tokenizer
from mars.config import DEFAULT_BLOCK_SIZE, MAX_SEED, SETTINGS, DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.engine import Engine, ModelEngine
from mars.engine.network import weights_version
from mars.metrics import output_ids
from mars.options import usual_threshold
from mars.records import ForwardPass

FROM_CONFIG = {*decoders.SAMPLING, "max_new_tokens", "use_cache"}
"""Settings that `generate` has names of its own for."""
OWN = tuple(name for name in SETTINGS if name not in FROM_CONFIG)
SUPPORTED = {"max_new_tokens", "max_length", "do_sample", "temperature", "top_p", "eos_token_id", "pad_token_id"}
SUPPORTED |= {"bos_token_id", "return_dict_in_generate", "mask_token_id"}
NEUTRAL_ONES = {"num_beams", "num_return_sequences", "repetition_penalty", "encoder_repetition_penalty", "typical_p"}
CHANGES_TEXT = ("repetition_penalty", "no_repeat_ngram_size", "min_new_tokens", "min_length", "bad_words_ids")
DEFAULT_NEW_TOKENS = 20
IGNORED = ("token_type_ids", "position_ids", "use_cache")
_KNOWN = "_mars_known"  # the attribute of a model that has its `_Known`

_log = logging.getLogger(__name__)


@dataclass
class MarsOutput(GenerateDecoderOnlyOutput):
    """The dict that `generate` returns: `sequences` [rows, tokens] and `records`, one `ForwardPass` a model call."""

    records: tuple[ForwardPass, ...] | None = None


def generate(
    model: PreTrainedModel,
    inputs: torch.Tensor | None = None,
    generation_config: GenerationConfig | None = None,
    *,
    input_ids: torch.Tensor | None = None,
    attention_mask: torch.Tensor | None = None,
    decoder: str = decoders.USUAL,
    seed: int | None = None,
    tokenizer: Any = None,
    assistant_model: PreTrainedModel | None = None,
    streamer: Any = None,
    **options: Any,
) -> torch.Tensor | MarsOutput:
    """Prompts and what was written after them, ids [rows, tokens], the shorter rows padded with `pad_token_id`.

    `options` are those of custom_generate/README.md. ValueError where an option is unknown or out of range, the prompts
    are empty, padded on the right or too long, or the model cannot do what the decoder needs.
    """
    decoders.check_name(decoder)
    read_record(Path(model.name_or_path))  # a model of block diffusion is none of ours
    own = {name: options.pop(name) for name in OWN if name in options}
    options = {name: value for name, value in options.items() if name not in IGNORED}
    config, bounded = read_config(model, generation_config, options)
    stops = frozenset(torch.as_tensor([] if config.eos_token_id is None else config.eos_token_id).flatten().tolist())
    ids, prompts = read_prompts(inputs if input_ids is None else input_ids, attention_mask, config, stops)
    settings = read_settings(model, config, decoder, own, seed, _new_tokens(config, bounded, ids.shape[1]))
    # Without an id that ends rows none ends early, and nothing is padded.
    pad = min(stops, default=0) if config.pad_token_id is None else int(torch.as_tensor(config.pad_token_id))
    if streamer is not None and len(prompts) > 1:
        raise ValueError(f"a streamer takes one prompt, got {len(prompts)}")
    mask = find_mask(model, config, tokenizer, decoder)
    engine: Engine = _with_assistant(find_engine(model, stops, mask), decoder, assistant_model, stops)
    passes = DECODERS[decoder](engine, prompts, settings)
    records = list(passes if streamer is None else _streamed(passes, ids, streamer))
    sequences = _sequences(ids, [output_ids(records, row) for row in range(len(prompts))], pad)
    if config.return_dict_in_generate:
        return MarsOutput(sequences=sequences, records=tuple(records))
    return sequences


def _streamed(passes: Iterator[ForwardPass], ids: torch.Tensor, streamer: Any) -> Iterator[ForwardPass]:
    """The same passes; the streamer gets the prompt, then the tokens that each pass accepts."""
    streamer.put(ids.cpu())
    for record in passes:
        for row in record.rows:
            if row.accepted:
                streamer.put(torch.tensor(row.accepted_ids))
        yield record
    streamer.end()


def _sequences(ids: torch.Tensor, written: list[list[int]], pad: int) -> torch.Tensor:
    longest = max(map(len, written))
    padded = [row + [pad] * (longest - len(row)) for row in written]
    return torch.cat([ids, torch.tensor(padded, dtype=ids.dtype, device=ids.device)], 1)


def _new_tokens(config: GenerationConfig, bounded: bool, length: int) -> int:
    """`max_new_tokens`, else what `max_length` leaves (padding counts, as for `generate`), else 20."""
    if config.max_new_tokens is not None:
        return int(config.max_new_tokens)
    if not bounded:
        return DEFAULT_NEW_TOKENS
    if config.max_length <= length:
        raise ValueError(f"the prompts take {length} tokens, max_length is {config.max_length}: pass max_new_tokens")
    return int(config.max_length) - length


def _with_assistant(engine: Engine, decoder: str, assistant: PreTrainedModel | None, stops: frozenset[int]) -> Engine:
    if not decoders.TABLE[decoder].draft:
        if assistant is not None:
            drafted = decoders.names(decoders.drafted())
            raise ValueError(f"assistant_model is for decoder={drafted!r}, got decoder={decoder!r}")
        return engine
    if assistant is None:
        raise ValueError(f"decoder={decoder!r} needs assistant_model: a smaller model with the same vocabulary")
    return Pair(engine, find_engine(assistant, stops, None))


class _Known:
    """The engine of a model's last call, and what it depends on. The model holds it, so both go together.

    A copy of the model, also on disk, has none.
    """

    def __init__(self, key: object = None, engine: ModelEngine | None = None) -> None:
        self.key, self.engine = key, engine

    def __reduce__(self) -> Any:
        return _Known, ()


def read_config(
    model: PreTrainedModel, given: GenerationConfig | None, options: Mapping[str, Any]
) -> tuple[GenerationConfig, bool]:
    """The generation config of this call, and whether it says how long the text may become.

    ValueError where an option is unknown, or asks for what these decoders do not do.
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

    Without a mask a pad token in front is padding, as for `generate`, unless it ends texts too. ValueError where there
    are none, or the padding is not on the left.
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
    model: PreTrainedModel,
    config: GenerationConfig,
    decoder: str,
    own: Mapping[str, Any],
    seed: int | None,
    new_tokens: int,
) -> DecodingSettings:
    """The decoding settings: those of MARS as given, the others from the generation config.

    Without a seed one is drawn from torch's generator, so that `torch.manual_seed` decides.
    """
    chosen = dict(own)
    chosen.setdefault("threshold", usual_threshold(decoder, chosen.get("score", "")))
    if chosen.get("block_size") is None:
        chosen["block_size"] = _training(model)[1] or DEFAULT_BLOCK_SIZE
    if config.do_sample:
        chosen["temperature"] = 1.0 if config.temperature is None else config.temperature
        chosen["top_p"] = 1.0 if config.top_p is None else config.top_p
        chosen["seed"] = int(torch.randint(MAX_SEED, ())) if seed is None else seed
    return DecodingSettings(**chosen, max_new_tokens=new_tokens)


def find_mask(model: PreTrainedModel, config: GenerationConfig, tokenizer: Any, decoder: str) -> int | None:
    """The mask token's id: that of the call or a config, else the tokenizer's, or of the folder the model came from.

    ValueError where the decoder needs masks and none is known to be trained.
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


def find_engine(model: PreTrainedModel, stops: frozenset[int], mask_token_id: int | None) -> ModelEngine:
    """An engine on this model: the one of the last call, unless weights or tokens have changed since."""
    key = _key(model, stops, mask_token_id)
    known: _Known = vars(model).get(_KNOWN) or _Known()
    if known.engine is None or known.key != key:
        training = model.training
        scores = scores_of(read_record(Path(model.name_or_path)))
        engine = ModelEngine(model, stop_token_ids=stops, mask_token_id=mask_token_id, calibration=scores.pairs)
        model.train(training)
        vars(model)[_KNOWN] = _Known(_key(model, stops, mask_token_id), engine)
        return engine
    return known.engine


def _key(model: PreTrainedModel, stops: frozenset[int], mask_token_id: int | None) -> object:
    return stops, mask_token_id, model.device, model.dtype, weights_version(model)


def _training(model: PreTrainedModel) -> tuple[bool, int | None]:
    record = read_record(Path(model.name_or_path))
    return mask_training(record, model.config.model_type, Path(model.name_or_path).name)


def _neutral(name: str, value: Any) -> bool:
    """Whether a value asks for nothing; an empty list of ids that end a text asks for a text without an end."""
    if name == "eos_token_id" and value is not None:
        return False
    if value is None or (isinstance(value, list | tuple | dict) and not value):
        return True
    return name not in SUPPORTED and value == (1 if name in NEUTRAL_ONES else 0)
