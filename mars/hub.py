"""The decoders for users of `transformers`: what `model.generate(custom_generate=…)` calls.

The options are documented in custom_generate/README.md. Without `transformers` loading code:
`mars.hub.generate(model, **inputs, threshold=0.95)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel
from transformers.generation import GenerateDecoderOnlyOutput

from mars import decoders
from mars.decoding import DECODERS
from mars.engine import Engine
from mars.engine.adapter import Adapter
from mars.hub_arguments import (
    DEFAULT_NEW_TOKENS,
    OWN,
    find_adapter,
    find_engine,
    find_mask,
    read_config,
    read_prompts,
    read_settings,
    refuse_block_diffusion,
    stop_tokens,
)
from mars.metrics import output_ids
from mars.records import ForwardPass

IGNORED = ("token_type_ids", "position_ids")


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
    adapter: str | Path | Adapter | None = None,
    streamer: Any = None,
    **options: Any,
) -> torch.Tensor | MarsOutput:
    """Prompts and what was written after them, ids [rows, tokens], the shorter rows padded with `pad_token_id`.

    `options` are those of custom_generate/README.md.

    Raises:
        ValueError: one sentence: an option is unknown or out of range, the prompts are empty, padded on the right or
            too long, or the model cannot do what the decoder needs.
    """
    decoders.check_name(decoder)
    refuse_block_diffusion(model, decoder)
    own = {name: options.pop(name) for name in OWN if name in options}
    found = find_adapter(adapter, options)
    if found is not None and own.get("block_size") is None:
        own["block_size"] = found.block_size
    options = {name: value for name, value in options.items() if name not in IGNORED}
    config, bounded = read_config(model, generation_config, options)
    stops = stop_tokens(config)
    ids, prompts = read_prompts(inputs if input_ids is None else input_ids, attention_mask, config, stops)
    settings = read_settings(model, config, own, seed, _new_tokens(config, bounded, ids.shape[1]))
    pad = _pad_token(config, stops, len(prompts))
    if streamer is not None and len(prompts) > 1:
        raise ValueError(f"a streamer takes one prompt, got {len(prompts)}")
    mask = find_mask(model, config, tokenizer, decoder) if found is None else None
    engine: Engine = _with_assistant(find_engine(model, stops, mask, found), decoder, assistant_model, stops)
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


def _pad_token(config: GenerationConfig, stops: frozenset[int], rows: int) -> int:
    if config.pad_token_id is not None:
        return int(torch.as_tensor(config.pad_token_id))
    if not stops and rows > 1:
        raise ValueError("rows of different lengths need pad_token_id: pass it")
    return min(stops, default=0)


def _with_assistant(engine: Engine, decoder: str, assistant: PreTrainedModel | None, stops: frozenset[int]) -> Engine:
    if not decoders.TABLE[decoder].draft:
        if assistant is not None:
            drafted = " or ".join(repr(found.name) for found in decoders.drafted())
            raise ValueError(f"assistant_model is for decoder={drafted}, got decoder={decoder!r}")
        return engine
    if assistant is None:
        raise ValueError(f"decoder={decoder!r} needs assistant_model: a smaller model with the same vocabulary")
    from mars.decoding.pair import Pair

    return Pair(engine, find_engine(assistant, stops, None))
