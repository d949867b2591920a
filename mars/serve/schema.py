"""The bodies of requests as they are checked, and those of answers as they are written.

Values are strict: "4" is no number and 1 is not true. The other parameters of OpenAI's calls are in
`mars.serve.conformance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from mars.config import MAX_ALTERNATIVES, MAX_BLOCK_SIZE, MAX_SEED, LayoutName

MOST_STOPS, MOST_MESSAGES, MOST_PARTS = 4, 2048, 256
MOST_COMPLETION_ALTERNATIVES = 5
COMPLETION_TOKENS = 16
"""OpenAI's default length of `/v1/completions`."""

UNIONS = {
    "prompt": "it should be a text or a list of token ids, or a list of one of them",
    "stop": f"it should be a text or up to {MOST_STOPS} texts, none of them empty",
}
"""The complaint about a wrong value that could be of several types."""

Stop = Annotated[str, StringConstraints(min_length=1)]
Whole = Annotated[int, Field(ge=1)]
TokenId = Annotated[int, Field(ge=0)]


class StrictModel(BaseModel):
    """A model that converts no value and accepts no infinite number."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class Lenient(StrictModel):
    """One that clients send back with further fields, as they came: these may be there while they are null or empty."""

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: given for name, given in value.items() if name in cls.model_fields or given not in _EMPTY}


_EMPTY: tuple[Any, ...] = (None, [], {}, "")
_TOOLS = {"tool_calls", "tool_call_id", "function_call"}


class TextPart(Lenient):
    """One part of a content; only text is read."""

    type: Literal["text"]
    text: str


class Message(Lenient):
    """One turn. `name` is not shown to the model."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(max_length=MOST_PARTS, fail_fast=True)]
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _sayable(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value.get("role") in ("tool", "function") or any(value.get(name) not in _EMPTY for name in _TOOLS):
            raise ValueError("tools are not supported: send turns of system, developer, user and assistant alone")
        if "content" in value and value["content"] in (None, []):
            raise ValueError("there is no content: send a text or parts of the type text, or leave this turn out")
        return value

    def turn(self) -> dict[str, str]:
        """Role and content as chat templates know them."""
        role = "system" if self.role == "developer" else self.role
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": role, "content": content}


class StreamOptions(StrictModel):
    """Whether a stream sends usage: in an event of its own at the end, and in every event. It is never obfuscated."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False
    include_obfuscation: bool | None = False


class Request(BaseModel, ABC):
    """The parameters that both calls share; further parameters are checked by `mars.serve.conformance`."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, frozen=True)
    default_length: ClassVar[int | None] = None

    model: str | None = None
    max_tokens: Whole | None = None
    max_completion_tokens: Whole | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-MAX_SEED - 1, le=MAX_SEED)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS, fail_fast=True)] | None = None
    n: Literal[1] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    decoder: str | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    block_size: Annotated[int, Field(ge=1, le=MAX_BLOCK_SIZE)] | None = None
    layout: LayoutName | None = None
    records: bool | None = None

    @field_validator("n", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        if value is not None and (isinstance(value, bool) or value != 1 or not isinstance(value, int)):
            raise ValueError("must be 1: this server writes one answer a request")
        return value

    def names(self, name: str) -> bool:
        """Whether the request gives a value; null is one for a threshold alone."""
        return name in self.model_fields_set and (name == "threshold" or getattr(self, name) is not None)

    @property
    def idle(self) -> list[str]:
        """The parameters with a field that have no effect: never, or because another one is missing."""
        if (options := self.stream_options) is None:
            return []
        never = ["stream_options.include_obfuscation"] if options.include_obfuscation else []
        return never if self.stream else [*never, "stream_options"]

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings at which the text ends."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def length(self) -> int | None:
        """The most tokens to write, if the request says so."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def length_name(self) -> str:
        """The parameter that `length` is taken from."""
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    @abstractmethod
    def alternatives(self) -> int | None:
        """The number of alternatives listed for each token; None: no log-probabilities at all."""


class ChatRequest(Request):
    """The body of `/v1/chat/completions`."""

    messages: Annotated[list[Message], Field(max_length=MOST_MESSAGES, fail_fast=True)]
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_ALTERNATIVES)] | None = None

    @field_validator("messages", mode="before")
    @classmethod
    def _some(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("there is no turn: send at least one, such as a user's")
        return value

    @property
    def idle(self) -> list[str]:
        return [*super().idle, *(["top_logprobs"] if self.top_logprobs and not self.logprobs else [])]

    @property
    def alternatives(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(Request):
    """The body of `/v1/completions`."""

    default_length: ClassVar[int | None] = COMPLETION_TOKENS

    prompt: (
        str
        | Annotated[list[str], Field(fail_fast=True)]
        | Annotated[list[TokenId], Field(fail_fast=True)]
        | Annotated[list[Annotated[list[TokenId], Field(fail_fast=True)]], Field(fail_fast=True)]
    )
    logprobs: Annotated[int, Field(ge=0, le=MOST_COMPLETION_ALTERNATIVES)] | None = None

    @property
    def single(self) -> str | list[int]:
        """The one prompt; ValueError where there are several, or none."""
        prompt: Any = self.prompt
        if isinstance(prompt, list) and (not prompt or not isinstance(prompt[0], int)):
            if len(prompt) != 1:
                raise ValueError(f"prompt must be one text or one list of token ids, got {len(prompt)} of them")
            [prompt] = prompt
        if not prompt:
            raise ValueError("prompt must not be empty")
        return prompt

    @property
    def alternatives(self) -> int | None:
        return self.logprobs


class Candidate(StrictModel):
    """A token with its log-probability and the bytes that it stands for."""

    token: str
    logprob: float
    bytes: list[int]
    id: Annotated[int, Field(exclude=True)]


class TokenLogprob(Candidate):
    """A token of the text, with the most probable ones in its place."""

    top_logprobs: list[Candidate]


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
