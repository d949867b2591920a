"""The parameters of OpenAI's two completion calls: each is supported, ignored with a warning, or refused.

The requests are checked against this table, the tests send each line's examples, and docs/serving.md shows it
(`as_markdown`). A parameter that the table does not know is refused.
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
_MESSAGES = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "Hello"}]
_PARTS = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the calls in `routes`.

    A name with a dot is that of a value within another. `says` is the sentence of the list. `examples` are values that
    are answered, for a refused parameter those that ask for nothing; `wrong` are values that are refused with a
    sentence.
    """

    name: str
    routes: tuple[Route, ...] = BOTH
    support: Support
    says: str
    examples: tuple[Any, ...] = ()
    wrong: tuple[Any, ...] = ()


def _supported(name: str, says: str, *examples: Any, routes: tuple[Route, ...] = BOTH, wrong: tuple = ()) -> Parameter:
    return Parameter(name=name, routes=routes, support="supported", says=says, examples=examples, wrong=wrong)


def _ignored(name: str, says: str, *examples: Any, routes: tuple[Route, ...] = BOTH) -> Parameter:
    return Parameter(name=name, routes=routes, support="ignored", says=says, examples=examples)


def _refused(name: str, says: str, *examples: Any, routes: tuple[Route, ...] = BOTH, wrong: tuple) -> Parameter:
    return Parameter(name=name, routes=routes, support="refused", says=says, examples=(None, *examples), wrong=wrong)


PARAMETERS: tuple[Parameter, ...] = (
    _supported("model", "a name of `/v1/models`; without it the first of them", None, wrong=("gpt-4o", 5)),
    _supported(
        "messages",
        "turns of system (or developer), user and assistant; content is text, or a list of parts of the type text",
        _MESSAGES,
        _PARTS,
        routes=CHAT,
        wrong=(
            [],
            "Hello",
            [{"role": "tool", "content": "x"}],
            [{"role": "user", "content": None}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
        ),
    ),
    _supported(
        "prompt",
        "a text or a list of token ids, or a list of one of them; control tokens in a text are plain text",
        "Hello",
        ["Hello"],
        [5, 6, 7],
        [[5, 6, 7]],
        routes=COMPLETIONS,
        wrong=("", [], ["one", "two"], [-1], [10**9], 7),
    ),
    _supported(
        "max_completion_tokens", "the most tokens written", 4, None, routes=CHAT, wrong=(0, -1, 10**9, "4", 2.5)
    ),
    _supported(
        "max_tokens",
        "the same; default: what the context and the server's limit leave (chat), 16 (completions)",
        4,
        None,
        wrong=(0, -1, 10**9, "4", True),
    ),
    _supported(
        "temperature",
        "from 0 to 2; default 0, the most probable token (OpenAI's is 1)",
        0,
        0.7,
        2,
        wrong=(-1, 2.1, "hot"),
    ),
    _supported("top_p", "above 0, at most 1; default 1", 0.5, 1, wrong=(0, 1.5, -0.1)),
    _supported(
        "seed",
        "the same seed writes the same text, whatever else runs; without one it is random",
        7,
        -7,
        2**63 - 1,
        wrong=(2**63, 1.5, "7"),
    ),
    _supported(
        "stop",
        "a string or up to 4, none of them empty; the text ends before the first that occurs",
        "\n\n",
        ["a", "b"],
        None,
        wrong=("", [""], ["a"] * 5, 3),
    ),
    _supported("n", "1", 1, wrong=(0, 2, 1.5)),
    _supported("stream", "server-sent events: one for each pass that adds text", True, False, wrong=("yes", 1)),
    _supported(
        "stream_options",
        "for streams: `include_usage`, and vLLM's `continuous_usage_stats`, which adds the usage so far to each event",
        {"include_usage": True},
        {"include_usage": True, "continuous_usage_stats": True},
        wrong=({"include_usage": "yes"}, {"include_obfuscation": "yes"}, {"other": True}),
    ),
    _supported(
        "logprobs",
        "log-probabilities of the tokens, as the pass that accepted each gave them: with masks, given what they read",
        True,
        False,
        routes=CHAT,
        wrong=("yes", 3),
    ),
    _supported("top_logprobs", "0 to 20; without effect unless `logprobs` is true", 2, routes=CHAT, wrong=(-1, 21)),
    _supported("logprobs", "0 to 5, in the form of that call", 0, 2, None, routes=COMPLETIONS, wrong=(-1, 6, True)),
    _supported(
        "decoder",
        "ours: a decoder that can share passes; default: that of `--decoder`",
        "autoregressive",
        wrong=("fast", 1),
    ),
    _supported(
        "threshold", "ours: τ, for decoders that read it; null is one-token mode", 0.9, None, wrong=(-0.1, 1.1, "high")
    ),
    _supported("block_size", "ours: tokens proposed per pass; default: as trained", 4, wrong=(0, 65, 4.5)),
    _supported("records", "ours: the pass records beside the text, in `mars`", True, wrong=("yes",)),
    _ignored("user", "nothing is kept of it", "somebody"),
    _ignored("safety_identifier", "nothing is kept of it", "somebody"),
    _ignored("metadata", "nothing is kept of it", {"a": "b"}, routes=CHAT),
    _ignored("store", "nothing is stored", True, routes=CHAT),
    _ignored("service_tier", "there is one", "auto", routes=CHAT),
    _ignored("prompt_cache_key", "it would change no text", "k", routes=CHAT),
    _ignored("prompt_cache_options", "it would change no text", {"ttl": "30m"}, routes=CHAT),
    _ignored("prompt_cache_retention", "it would change no text", "24h", routes=CHAT),
    _ignored("prediction", "it would change no text", {"type": "content", "content": "x"}, routes=CHAT),
    _ignored("reasoning_effort", "the models do not reason apart from the text", "low", routes=CHAT),
    _ignored("verbosity", "the models know no such instruction", "low", routes=CHAT),
    _ignored("parallel_tool_calls", "there are no tools", True, routes=CHAT),
    _ignored(OBFUSCATION, "true: events are not padded, so their sizes show those of their texts", True),
    _ignored("ignore_eos", "vLLM's, sent by load testers: a text ends where the model ends it", True),
    _refused("frequency_penalty", "other than 0", 0, wrong=(0.5,)),
    _refused("presence_penalty", "other than 0", 0, wrong=(0.5,)),
    _refused("logit_bias", "unless empty", {}, wrong=({"5": 1},)),
    _refused("best_of", "other than 1", 1, routes=COMPLETIONS, wrong=(2,)),
    _refused("echo", "unless false", False, routes=COMPLETIONS, wrong=(True,)),
    _refused("suffix", "unless empty", "", routes=COMPLETIONS, wrong=("end",)),
    _refused("response_format", "other than text", {"type": "text"}, routes=CHAT, wrong=({"type": "json_object"},)),
    _refused("tools", "unless empty", [], routes=CHAT, wrong=([{"type": "function"}],)),
    _refused("tool_choice", "other than none or auto", "none", "auto", routes=CHAT, wrong=("required",)),
    _refused("functions", "unless empty", [], routes=CHAT, wrong=([{"name": "f"}],)),
    _refused("function_call", "other than none or auto", "none", "auto", routes=CHAT, wrong=({"name": "f"},)),
    _refused("modalities", "other than text", ["text"], routes=CHAT, wrong=(["text", "audio"],)),
    _refused("moderation", "always", routes=CHAT, wrong=({"model": "omni-moderation-latest"},)),
    _refused("audio", "always", routes=CHAT, wrong=({"voice": "alloy"},)),
    _refused("web_search_options", "always", routes=CHAT, wrong=({},)),
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
            shown = ascii(name[:64]).strip("'")
            raise UnsupportedError(f"there is no parameter {shown} here: see the list in docs/serving.md", shown)
        if parameter.support == "refused" and not _asks_nothing(parameter, value):
            raise UnsupportedError(f"{name} is not supported, {parameter.says}: leave it out", name)
        if parameter.support == "ignored" and value is not None:
            found.append(name)
    return tuple(found)


def _asks_nothing(parameter: Parameter, value: Any) -> bool:
    """Whether the value is one of the examples; True does not count as 1."""
    return any(
        value == example and isinstance(value, bool) == isinstance(example, bool) for example in parameter.examples
    )


class UnsupportedError(ValueError):
    """A parameter that is refused; the message is one sentence."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def as_markdown() -> str:
    """The table of docs/serving.md."""
    lines = ["| parameter | call | | |", "| --- | --- | --- | --- |"]
    for found in PARAMETERS:
        call = "both" if found.routes == BOTH else found.routes[0]
        lines.append(f"| `{found.name}` | {call} | {found.support} | {found.says} |")
    return "\n".join(lines) + "\n"
