"""A model that another `python -m mars.serve` serves: its tokenizer, its facts, and its records.

Prompts are encoded here and sent as token ids, so that the page draws the very tokens that the engine read. Seconds are
the engine's, without the time of the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import httpx
import torch
from pydantic import Field
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from mars import decoders
from mars.checkpoint import Checkpoint, CheckpointError
from mars.config import DecodingSettings
from mars.control import Control
from mars.records import ForwardPass, from_object
from mars.schema import Strict, parse

PATH = "/v1/mars"
_ASKED = ("temperature", "top_p", "seed", "block_size", "layout")
_CONNECT_SECONDS, _SILENCE_SECONDS = 10.0, 120.0
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token", "mask_token")
Id = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description(Strict):
    """The facts of a served model that are needed to encode for it and to read its records."""

    name: str
    block_size: int | None
    context: Annotated[int, Field(ge=1)]
    vocab_size: Annotated[int, Field(ge=1)]
    stop_token_ids: tuple[Id, ...]
    mask_token_id: Id | None
    dtype: str
    decoders: tuple[str, ...]
    tokenizer: str
    special: dict[str, str]
    chat_template: str | None

    @classmethod
    def of(cls, checkpoint: Checkpoint, context: int, known: Sequence[str]) -> Description:
        """The description of a checkpoint that is served with this context and these decoders."""
        engine, tokenizer = checkpoint.engine, checkpoint.tokenizer
        return cls(
            name=checkpoint.name,
            block_size=checkpoint.block_size,
            context=context,
            vocab_size=engine.vocab_size,
            stop_token_ids=tuple(sorted(engine.stop_token_ids)),
            mask_token_id=engine.mask_token_id,
            dtype=checkpoint.dtype,
            decoders=tuple(known),
            tokenizer=tokenizer.backend_tokenizer.to_str(),
            special={name: str(found) for name in _SPECIAL if (found := getattr(tokenizer, name, None))},
            chat_template=tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else None,
        )


@dataclass(kw_only=True, eq=False)
class RemoteEngine:
    """The facts of a remote engine; it can make no pass here."""

    mask_token_id: int | None
    stop_token_ids: frozenset[int]
    context_length: int
    vocab_size: int
    address: str
    static_shapes: bool = False
    template_ids: frozenset[int] = frozenset()
    calibration: torch.Tensor | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def open(self, rows: int, capacity: int) -> NoReturn:
        """Raises ValueError."""
        raise ValueError(f"this model is at {self.address}: no pass of it can be made here")

    def clock(self) -> NoReturn:
        """Raises ValueError."""
        self.open(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCheckpoint(Checkpoint):
    """A model that is served at `address` by its name; it can be asked for `decoders`."""

    address: str
    decoders: tuple[str, ...]

    @property
    def place(self) -> str:
        return urlsplit(self.address).netloc


def is_address(source: str) -> bool:
    """Whether a source is a remote model: an http or https address."""
    return source.startswith(("http://", "https://"))


def connect(source: str) -> RemoteCheckpoint:
    """The first model that is served at an address such as http://host:8000, with or without /v1.

    CheckpointError where no server answers there, or one of another kind.
    """
    address = source.rstrip("/").removesuffix("/v1")
    try:
        with _client(address) as client:
            answer = client.get(PATH)
            if answer.status_code != 200:
                raise ValueError(_said(answer))
            found: Description = parse(Description, answer.content, "the model")
            tokenizer = _tokenizer(found)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CheckpointError(
            f"no server answers at {address} ({type(error).__name__}): start python -m mars.serve there"
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{address} is not a server that lanes can use: {error}") from None
    engine = RemoteEngine(
        mask_token_id=found.mask_token_id,
        stop_token_ids=frozenset(found.stop_token_ids),
        context_length=found.context,
        vocab_size=found.vocab_size,
        address=address,
    )
    return RemoteCheckpoint(
        name=found.name,
        engine=engine,
        tokenizer=tokenizer,
        block_size=found.block_size,
        record={},
        dtype=found.dtype,
        address=address,
        decoders=found.decoders,
    )


def check(checkpoint: RemoteCheckpoint, decoder: str, settings: DecodingSettings) -> None:
    """Raise ValueError, one sentence, unless the server can be asked for this decoder and these settings."""
    if decoder not in checkpoint.decoders:
        names = ", ".join(decoders.TABLE[name].title for name in checkpoint.decoders if name in decoders.TABLE)
        raise ValueError(f"the engine at {checkpoint.place} can be asked for {names}, got {decoder!r}")
    sent = {*_ASKED, "max_new_tokens", "threshold", "alternatives"}
    usual = DecodingSettings()
    for name in decoders.TABLE[decoder].settings:
        if name not in sent and getattr(settings, name) != getattr(usual, name):
            raise ValueError(f"an engine elsewhere cannot be asked for {name}, got {getattr(settings, name)!r}")


def records(
    checkpoint: RemoteCheckpoint, decoder: str, prompt: Sequence[int], settings: DecodingSettings, control: Control
) -> Iterator[ForwardPass]:
    """The records of one answer as they arrive; the row there is freed when the iterator is closed.

    Once `control` stops, it ends at the next line that the server sends. The threshold stays that of the start: a
    request to a server cannot change it. ValueError at the call, as `check`; while it is read, one sentence: the server
    refused, or broke off.
    """
    check(checkpoint, decoder, settings)
    return _records(checkpoint, decoder, prompt, settings, control)


def _records(
    checkpoint: RemoteCheckpoint, decoder: str, prompt: Sequence[int], settings: DecodingSettings, control: Control
) -> Iterator[ForwardPass]:
    body: dict[str, Any] = {name: getattr(settings, name) for name in _ASKED}
    body |= {"model": checkpoint.name, "prompt": list(prompt), "max_tokens": settings.max_new_tokens}
    body |= {"decoder": decoder, "stream": True, "records": True}
    if decoders.TABLE[decoder].heeds_threshold:
        body["threshold"] = control.threshold
    try:
        with _client(checkpoint.address) as client, client.stream("POST", "/v1/completions", json=body) as answer:
            if answer.status_code != 200:
                answer.read()
                raise ValueError(_said(answer))
            for line in answer.iter_lines():
                if control.stopped or line == "data: [DONE]":
                    return
                if line.startswith("data: {"):
                    yield from _read(line.removeprefix("data: "), checkpoint)
    except httpx.HTTPError as error:
        raise ValueError(f"the engine at {checkpoint.place} broke off ({type(error).__name__})") from None
    raise ValueError(f"the engine at {checkpoint.place} broke off: its stream has no end")


def _read(line: str, checkpoint: RemoteCheckpoint) -> list[ForwardPass]:
    """The records of an event; ValueError where it says that the server failed, or is none that this one sends."""
    try:
        event = json.loads(line)
        failed = str(event["error"]["message"]) if "error" in event else ""
        records = [from_object(record) for record in event.get("mars", {}).get("records", ())]
        known = [
            0 <= proposal.token_id < checkpoint.engine.vocab_size
            for record in records
            for row in record.rows
            for proposal in row.proposals
        ]
        if not all(known) or any(len(record.rows) != 1 for record in records):
            raise ValueError("they are not of one row with tokens of this model")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the engine at {checkpoint.place} sends no records that can be read: {error}") from None
    if failed:
        raise ValueError(failed)
    return records


def _tokenizer(found: Description) -> PreTrainedTokenizerBase:
    try:
        made = Tokenizer.from_str(found.tokenizer)
    except Exception as error:  # noqa: BLE001 - the library raises plain Exception
        raise ValueError(f"its tokenizer cannot be read ({type(error).__name__})") from None
    return PreTrainedTokenizerFast(tokenizer_object=made, chat_template=found.chat_template, **found.special)


def _client(address: str) -> httpx.Client:
    timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
    return httpx.Client(base_url=address, timeout=timeout, trust_env=False)


def _said(answer: httpx.Response) -> str:
    """The message of a refusal, or its status."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"it answers {answer.status_code}"
