"""The parameters of OpenAI's two calls that have no field in mars/serve/schema.py: ignored with a warning, or refused.

docs/serving.md lists them with the supported ones. A parameter that is not known at all is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

IGNORED_HEADER = "x-mars-ignored"
OBFUSCATION = "stream_options.include_obfuscation"
IGNORED = frozenset(
    "user safety_identifier metadata store service_tier prompt_cache_key prompt_cache_options prompt_cache_retention "
    "prediction reasoning_effort verbosity parallel_tool_calls ignore_eos".split()
) | {OBFUSCATION}
"""They change no text, or ask for what no model here has."""
REFUSED: Mapping[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "min_tokens": (0,),
    "use_beam_search": (False,),
    "early_stopping": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "stop_token_ids": ([],),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "logit_bias": ({},),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "moderation": (),
    "audio": (),
    "web_search_options": (),
}
"""With the values that ask for nothing, and are taken; null is one of them for all."""


def ignored(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in `given` that have no effect.

    Raises:
        UnsupportedError: one of them is refused with this value, or unknown.
    """
    found = []
    for name, value in given.items():
        if value is None:  # which is "not set" in every client
            continue
        if name in IGNORED:
            if value not in ({}, [], ""):
                found.append(name)
        elif name not in REFUSED:
            shown = ascii(name[:64]).strip("'")
            raise UnsupportedError(f"there is no parameter {shown} here: see the list in docs/serving.md", shown)
        elif not _asks_nothing(value, REFUSED[name]):
            taken = " or ".join(map(json.dumps, REFUSED[name]))
            other = f" other than {taken}" if taken else ""
            raise UnsupportedError(f"{name} is not supported{other}: leave it out", name)
    return tuple(found)


def _asks_nothing(value: Any, harmless: Sequence[Any]) -> bool:
    """Whether the value is a harmless one; True does not count as 1."""
    return any(value == known and isinstance(value, bool) == isinstance(known, bool) for known in harmless)


class UnsupportedError(ValueError):
    """A parameter that is refused; the message is one sentence."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name
