"""The parameters of OpenAI's two completion calls: each is supported, ignored with a warning, or refused.

The requests are checked against this table, and docs/serving.md shows it (`as_markdown`). A parameter that the table
does not know is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Route = Literal["chat", "completions"]
Support = Literal["supported", "ignored", "refused"]

IGNORED_HEADER = "x-mars-ignored"
OBFUSCATION = "stream_options.include_obfuscation"
BOTH: tuple[Route, ...] = ("chat", "completions")
CHAT: tuple[Route, ...] = ("chat",)
COMPLETIONS: tuple[Route, ...] = ("completions",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the calls in `routes`.

    A name with a dot is that of a value within another. `says` is the sentence of the list. `harmless` are the values
    of a refused parameter that ask for nothing.
    """

    name: str
    routes: tuple[Route, ...] = BOTH
    support: Support
    says: str
    harmless: tuple[Any, ...] = ()


def _supported(name: str, says: str, routes: tuple[Route, ...] = BOTH) -> Parameter:
    return Parameter(name=name, routes=routes, support="supported", says=says)


def _ignored(name: str, says: str, routes: tuple[Route, ...] = BOTH) -> Parameter:
    return Parameter(name=name, routes=routes, support="ignored", says=says)


def _refused(name: str, says: str, *harmless: Any, routes: tuple[Route, ...] = BOTH) -> Parameter:
    return Parameter(name=name, routes=routes, support="refused", says=says, harmless=(None, *harmless))


PARAMETERS: tuple[Parameter, ...] = (
    _supported("model", "a name of `/v1/models`; without it the first of them"),
    _supported(
        "messages",
        "turns of system (or developer), user and assistant; content is text, or a list of parts of the type text",
        routes=CHAT,
    ),
    _supported(
        "prompt",
        "a text or a list of token ids, or a list of one of them; control tokens in a text are plain text",
        routes=COMPLETIONS,
    ),
    _supported("max_completion_tokens", "the most tokens written"),
    _supported(
        "max_tokens", "the same; default: what the context and the server's limit leave (chat), 16 (completions)"
    ),
    _supported("temperature", "from 0 to 2; default 0, the most probable token (OpenAI's is 1)"),
    _supported("top_p", "above 0, at most 1; default 1"),
    _supported("seed", "the same seed writes the same text, whatever else runs; without one it is random"),
    _supported("stop", "a string or up to 4, none of them empty; the text ends before the first that occurs"),
    _supported("n", "1"),
    _supported("stream", "server-sent events: one for each pass that adds text"),
    _supported(
        "stream_options",
        "for streams: `include_usage`, and vLLM's `continuous_usage_stats`, which adds the usage so far to each event",
    ),
    _supported(
        "logprobs",
        "log-probabilities of the tokens, as the pass that accepted each gave them: with masks, given what they read",
        routes=CHAT,
    ),
    _supported("top_logprobs", "0 to 20; without effect unless `logprobs` is true", routes=CHAT),
    _supported("logprobs", "0 to 5, in the form of that call", routes=COMPLETIONS),
    _supported("decoder", "ours: a decoder that can share passes; default: that of `--decoder`"),
    _supported("threshold", "ours: τ, for decoders that read it; null is one-token mode"),
    _supported("block_size", "ours: tokens proposed per pass; default: as trained"),
    _supported("layout", "ours: where exact and relaxed decoding put masks; default: auto where that changes no text"),
    _supported("records", "ours: the pass records beside the text, in `mars`"),
    _ignored("user", "nothing is kept of it"),
    _ignored("safety_identifier", "nothing is kept of it"),
    _ignored("metadata", "nothing is kept of it"),
    _ignored("store", "nothing is stored", routes=CHAT),
    _ignored("service_tier", "there is one", routes=CHAT),
    _ignored("prompt_cache_key", "it would change no text", routes=CHAT),
    _ignored("prompt_cache_options", "it would change no text", routes=CHAT),
    _ignored("prompt_cache_retention", "it would change no text", routes=CHAT),
    _ignored("prediction", "it would change no text", routes=CHAT),
    _ignored("reasoning_effort", "the models do not reason apart from the text", routes=CHAT),
    _ignored("verbosity", "the models know no such instruction", routes=CHAT),
    _ignored("parallel_tool_calls", "there are no tools", routes=CHAT),
    _ignored(OBFUSCATION, "true: events are not padded, so their sizes show those of their texts"),
    _ignored("ignore_eos", "vLLM's, sent by load testers: a text ends where the model ends it"),
    _refused("frequency_penalty", "other than 0", 0),
    _refused("presence_penalty", "other than 0", 0),
    _refused("repetition_penalty", "other than 1", 1),
    _refused("length_penalty", "other than 1", 1),
    _refused("top_k", "other than -1 or 0", -1, 0),
    _refused("min_p", "other than 0", 0),
    _refused("min_tokens", "other than 0", 0),
    _refused("use_beam_search", "unless false", False),
    _refused("early_stopping", "unless false", False),
    _refused("skip_special_tokens", "unless true", True),
    _refused("spaces_between_special_tokens", "unless true", True),
    _refused("include_stop_str_in_output", "unless false", False),
    _refused("stop_token_ids", "unless empty", []),
    _refused("add_generation_prompt", "unless true", True, routes=CHAT),
    _refused("continue_final_message", "unless false", False, routes=CHAT),
    _refused("logit_bias", "unless empty", {}),
    _refused("best_of", "other than 1", 1),
    _refused("echo", "unless false", False),
    _refused("suffix", "unless empty", "", routes=COMPLETIONS),
    _refused("response_format", "other than text", {"type": "text"}, routes=CHAT),
    _refused("tools", "unless empty", [], routes=CHAT),
    _refused("tool_choice", "other than none or auto", "none", "auto", routes=CHAT),
    _refused("functions", "unless empty", [], routes=CHAT),
    _refused("function_call", "other than none or auto", "none", "auto", routes=CHAT),
    _refused("modalities", "other than text", ["text"], routes=CHAT),
    _refused("moderation", "at all", routes=CHAT),
    _refused("audio", "at all", routes=CHAT),
    _refused("web_search_options", "at all", routes=CHAT),
)


def known(route: Route) -> dict[str, Parameter]:
    """The parameters of one call by name."""
    return {parameter.name: parameter for parameter in PARAMETERS if route in parameter.routes}


def ignored(route: Route, given: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """The names in `given` that have no effect.

    Raises:
        UnsupportedError: one of them is refused with this value, or unknown.
    """
    table, found = known(route), []
    for name, value in given:
        parameter = table.get(name)
        if parameter is None:
            if value is None:  # which is "not set" in every client
                continue
            shown = ascii(name[:64]).strip("'")
            raise UnsupportedError(f"there is no parameter {shown} here: see the list in docs/serving.md", shown)
        if parameter.support == "refused" and not _asks_nothing(parameter, value):
            raise UnsupportedError(f"{name} is not supported {parameter.says}: leave it out", name)
        if parameter.support == "ignored" and value not in (None, {}, [], ""):
            found.append(name)
    return tuple(found)


def _asks_nothing(parameter: Parameter, value: Any) -> bool:
    """Whether the value is a harmless one; True does not count as 1."""
    return any(value == known and isinstance(value, bool) == isinstance(known, bool) for known in parameter.harmless)


class UnsupportedError(ValueError):
    """A parameter that is refused; the message is one sentence."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def as_markdown() -> str:
    """The table of docs/serving.md: parameters that are treated alike share a line."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for found in PARAMETERS:
        call = "both" if found.routes == BOTH else found.routes[0]
        alike.setdefault((call, found.support, found.says), []).append(f"`{found.name}`")
    lines = ["| parameter | call | | |", "| --- | --- | --- | --- |"]
    lines += [f"| {', '.join(names)} | {' | '.join(treated)} |" for treated, names in alike.items()]
    return "\n".join(lines) + "\n"
