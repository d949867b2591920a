"""The parameters of OpenAI's and vLLM's calls that `mars.serve.schema` has no field for: ignored, or refused.

docs/serving.md lists all of them. A parameter that nobody knows is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mars.serve.guard import ApiError

IGNORED_HEADER = "x-mars-ignored"
_IGNORED = """user safety_identifier metadata store service_tier reasoning_effort verbosity prediction prompt_cache_key
    prompt_cache_options prompt_cache_retention parallel_tool_calls ignore_eos stream_options.include_obfuscation"""
IGNORED = {*_IGNORED.split()}


def _each(says: str, *harmless: Any, names: str) -> dict[str, tuple[str, tuple[Any, ...]]]:
    return dict.fromkeys(names.split(), (says, (None, *harmless)))


REFUSED = {
    **_each("other than 0", 0, names="frequency_penalty presence_penalty min_p min_tokens"),
    **_each("other than 1", 1, names="repetition_penalty length_penalty best_of"),
    **_each("other than -1 or 0", -1, 0, names="top_k"),
    **_each("unless false", False, names="use_beam_search early_stopping include_stop_str_in_output echo"),
    **_each("unless false", False, names="continue_final_message"),
    **_each("unless true", True, names="skip_special_tokens spaces_between_special_tokens add_generation_prompt"),
    **_each("unless empty", [], {}, "", names="stop_token_ids logit_bias suffix tools functions"),
    **_each("other than text", {"type": "text"}, ["text"], names="response_format modalities"),
    **_each("other than none or auto", "none", "auto", names="tool_choice function_call"),
    **_each("at all", names="moderation audio web_search_options"),
}
"""When each is refused, in words, and the values that ask for nothing."""


def ignored(given: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """The names in `given` that have no effect; ApiError where one is refused with this value, or unknown."""
    found = []
    for name, value in given:
        says, harmless = REFUSED.get(name, ("", ()))
        if name in IGNORED:
            found += [name] if value not in (None, {}, [], "") else []
        elif says and not any(value == known and (value is True) == (known is True) for known in harmless):
            raise ApiError(400, f"{name} is not supported {says}: leave it out", param=name)
        elif not says and value is not None:  # null is "not set" in every client
            shown = ascii(name[:64])[1:-1]
            raise ApiError(400, f"there is no parameter {shown} here: see the list in docs/serving.md", param=shown)
    return tuple(found)
