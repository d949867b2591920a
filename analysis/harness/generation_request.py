"""The generation settings of a task as settings of ours: length, sampling, and the strings that end an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs

from mars.config import DecodingSettings

DEFAULT_TOKENS = 256
"""The longest answer of the harness's own models where a task names no length."""

_DRAWING = ("top_k", "min_p", "typical_p")
_WITHOUT_EFFECT = {"num_beams": 1, "repetition_penalty": 1.0, "use_cache": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """The settings of an answer, and the strings at the first of which it ends."""

    settings: DecodingSettings
    until: tuple[str, ...]


def read_request(generation_kwargs: Mapping[str, Any], base: DecodingSettings, end: str) -> GenerationRequest:
    """The settings `base` with what a task's `generation_kwargs` say; `end` is the text of the end of sequence.

    Raises:
        ValueError: a key is unknown, or has a value that no decoder here can follow.
    """
    options = dict(normalize_gen_kwargs(dict(generation_kwargs), DEFAULT_TOKENS))
    until = tuple(handle_stop_sequences(options.pop("until"), eos=end))
    changes = {"max_new_tokens": options.pop("max_gen_toks"), **_drawing(options)}
    for key, value in options.items():
        if key not in _WITHOUT_EFFECT or value != _WITHOUT_EFFECT[key]:
            raise ValueError(
                f"generation_kwargs: {key}={value!r} is not supported; a task may set until, max_gen_toks, do_sample, "
                "temperature and top_p"
            )
    return GenerationRequest(settings=replace(base, **changes), until=until)


def _drawing(options: dict[str, Any]) -> dict[str, float]:
    """Takes what concerns drawing out of `options`. Greedy decoding ignores it, as it does in transformers."""
    draws, temperature, top_p = options.pop("do_sample"), options.pop("temperature", 0.0), options.pop("top_p", 1.0)
    if not draws:
        for key in _DRAWING:
            options.pop(key, None)
        return {"temperature": 0.0, "top_p": 1.0}
    if not temperature:
        raise ValueError(f"generation_kwargs: do_sample needs a temperature above 0, got {temperature}")
    return {"temperature": float(temperature), "top_p": float(top_p)}
