"""From pass records to the text of an answer: stop strings, log-probabilities, usage, and the bodies around them."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from transformers.convert_slow_tokenizer import bytes_to_unicode

from mars.metrics import Tally
from mars.records import ForwardPass, Proposal
from mars.serve.guard import ENDS, FAILED, until_gone
from mars.serve.schema import Candidate, StreamOptions, TokenLogprob, error_body
from mars.text import REPLACEMENT, TextPieces

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

LOWEST_LOGPROB = -9999.0  # what OpenAI writes for a probability that is rounded to 0
_BYTE_OF = {character: byte for byte, character in bytes_to_unicode().items()}
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # the name of a byte among SentencePiece's pieces
_log = logging.getLogger(__name__)
Finish = Literal["stop", "length"]


class StopStrings:
    """Cuts a text before the first stop string in it; what may be the beginning of one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def add(self, text: str) -> str:
        """Add text; returns the part that can be shown now, nothing once a stop string was found."""
        if self.found:
            return ""
        self._held += text
        starts = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if starts:
            self.found = True
            shown, self._held = self._held[: min(starts)], ""
            return shown
        # The longest end of the text that may be the beginning of a stop string is held back.
        ends = range(min(len(self._held), max(map(len, self._stops), default=1) - 1), 0, -1)
        keep = next((n for n in ends if any(stop.startswith(self._held[-n:]) for stop in self._stops)), 0)
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return shown

    def flush(self) -> str:
        """The text that was held back, at the end."""
        shown, self._held = self._held, ""
        return shown


@dataclass(slots=True, kw_only=True)
class Piece:
    """The part of an answer that one pass adds. `tokens` counts all tokens so far; only the last piece has `finish`."""

    text: str = ""
    tokens: int = 0
    logprobs: list[TokenLogprob] = field(default_factory=list)
    records: list[ForwardPass] = field(default_factory=list)
    finish: Finish | None = None


class Writer:
    """Folds the records of one request into pieces of its text.

    `alternatives` is how many candidates a token lists; None: no log-probabilities. A token is listed with the text
    that it adds, once that is shown. Tokens past a stop string do not count.
    """

    def __init__(self, checkpoint: Checkpoint, stops: Sequence[str], alternatives: int | None) -> None:
        self.tally = Tally()
        self.tokens = 0
        self.finish: Finish | None = None
        self._ends = checkpoint.engine.stop_token_ids
        self._candidates = Candidates(checkpoint)
        self._alternatives = alternatives
        self._pieces = TextPieces(checkpoint.decode)
        self._stops = StopStrings(stops)
        self._written, self._shown = 0, 0  # characters, with and without those that are held back
        self._listed: deque[tuple[int, TokenLogprob]] = deque()  # with the place of its text; not shown yet

    def add(self, record: ForwardPass) -> Piece:
        """The piece that this pass adds; nothing after the end."""
        self.tally.add(record)
        piece = Piece(records=[record])
        [row] = record.rows
        for proposal in row.proposals[: row.accepted]:
            if self._stops.found:
                break
            self.tokens += 1
            self._add(piece, proposal)
        if self._stops.found:
            self.finish = "stop"
        elif row.finish_reason is not None:
            piece.text += self._stops.add(self._pieces.flush())
            self.finish = "length" if row.finish_reason == "length" and not self._stops.found else "stop"
            piece.text += self._stops.flush()
        self._shown += len(piece.text)
        piece.logprobs, piece.tokens, piece.finish = self._list(), self.tokens, self.finish
        return piece

    def _add(self, piece: Piece, proposal: Proposal) -> None:
        listed = self._alternatives is not None and proposal.token_id not in self._ends
        chances = dict(proposal.alternatives) if listed else {}
        if listed:
            chances.setdefault(proposal.token_id, proposal.score)  # a drawn token may be none of the likely ones
        top = {number: self._candidates.of(number, self._pieces.peek(number), chances[number]) for number in chances}
        text = self._pieces.add(proposal.token_id)
        if listed:  # by its score; among the likely tokens, by its probability
            chosen = self._candidates.of(proposal.token_id, text, proposal.score).model_copy(update={"token": text})
            top[proposal.token_id] = chosen.model_copy(update={"logprob": top[proposal.token_id].logprob})
            among = list(top.values()) if self._alternatives else []
            self._listed.append((self._written, TokenLogprob(**dict(chosen), top_logprobs=among)))
        self._written += len(text)
        piece.text += self._stops.add(text)

    def _list(self) -> list[TokenLogprob]:
        """The tokens whose text is shown by now; of one that a stop string cuts, the part before it.

        One that adds nothing, since it is in the middle of a character, waits for the end of that.
        """
        ready, complete = list[TokenLogprob](), self.finish is not None and not self._stops.found
        while self._listed:
            place, found = self._listed[0]
            if not complete and (place >= self._shown or place + len(found.token) > self._shown):
                break
            ready.append(found)
            self._listed.popleft()
        if self._stops.found and self._listed and self._listed[0][0] < self._shown:
            place, found = self._listed[0]
            text = found.token[: self._shown - place]
            cut = {"token": text, "bytes": list(text.encode())}
            top = [one.model_copy(update=cut) if one.id == found.id else one for one in found.top_logprobs]
            ready.append(found.model_copy(update={**cut, "top_logprobs": top}))
        return ready


class Candidates:
    """Tokens in the form of log-probabilities, each with the bytes that it stands for."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._tokenizer = checkpoint.tokenizer
        self._added = self._tokenizer.added_tokens_decoder
        decoder = self._tokenizer.backend_tokenizer.decoder
        self._byte_level = decoder is not None and b"ByteLevel" in decoder.__getstate__()

    def of(self, token_id: int, text: str, probability: float) -> Candidate:
        """The token with this probability; `text` is what it adds where it stands."""
        logprob = max(math.log(probability), LOWEST_LOGPROB) if probability > 0 else LOWEST_LOGPROB
        found = self._bytes(token_id, text)
        if token_id in self._added:
            text = text or self._added[token_id].content
        elif not text or REPLACEMENT in text:
            text = "bytes:" + "".join(f"\\x{byte:02x}" for byte in found)
        return Candidate(token=text, logprob=min(logprob, 0.0), bytes=found, id=token_id)

    def _bytes(self, token_id: int, text: str) -> list[int]:
        piece = self._tokenizer.convert_ids_to_tokens(token_id)
        if not isinstance(piece, str) or token_id in self._added:
            return list(text.encode())
        if self._byte_level and all(character in _BYTE_OF for character in piece):
            return [_BYTE_OF[character] for character in piece]
        alone = _BYTE.fullmatch(piece)
        return [int(alone[1], 16)] if alone and not self._byte_level else list(text.encode())


class Bodies:
    """The bodies of the answer to one request, as a whole or for each event, in the form of chat or completions."""

    def __init__(self, model: str, prompt_tokens: int, *, chat: bool, logprobs: bool, records: bool) -> None:
        self._heading = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }
        self._prompt_tokens = prompt_tokens
        self._chat = chat
        self._logprobs = logprobs
        self._records = records
        self._offset = 0

    def whole(self, pieces: Sequence[Piece], tally: Tally) -> dict[str, Any]:
        """The whole answer in one body."""
        last = pieces[-1]
        joined = Piece(
            text="".join(piece.text for piece in pieces),
            tokens=last.tokens,
            logprobs=[found for piece in pieces for found in piece.logprobs],
            records=[record for piece in pieces for record in piece.records],
            finish=last.finish,
        )
        choice = self._choice(joined, {"role": "assistant", "content": joined.text, "refusal": None}, "message")
        body = {**self._heading, "choices": [choice], "usage": self.usage(joined.tokens)}
        if self._records:
            body["mars"] = {
                "passes": tally.passes,
                "tokens_per_forward": tally.tokens_per_forward,
                "seconds": tally.seconds,
                "records": [asdict(record) for record in joined.records],
            }
        return body

    async def stream(self, pieces: AsyncGenerator[Piece], options: StreamOptions) -> AsyncGenerator[dict[str, Any]]:
        """The bodies of the events: in chat, first one with the role; then one for each pass that adds something."""
        counted = options.include_usage or options.continuous_usage_stats
        opened, tokens = not self._chat, 0
        async with aclosing(pieces):
            async for piece in pieces:
                tokens = piece.tokens
                told = {"usage": self.usage(tokens) if options.continuous_usage_stats else None} if counted else {}
                if not opened:
                    opened = True
                    yield {**self._event([self._choice(Piece(), {"role": "assistant", "content": ""})]), **told}
                if piece.text or piece.logprobs or piece.finish or self._records:
                    said = {"content": piece.text} if piece.text else {}
                    event = {**self._event([self._choice(piece, said)]), **told}
                    if self._records:
                        event["mars"] = {"records": [asdict(record) for record in piece.records]}
                    yield event
        if options.include_usage:
            yield {**self._event([]), "usage": self.usage(tokens)}

    def usage(self, tokens: int) -> dict[str, Any]:
        """Tokens of the prompt, of the answer so far with its end-of-sequence token, and of both."""
        prompt = self._prompt_tokens
        return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}

    def _event(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = {"object": "chat.completion.chunk"} if self._chat else {}
        return {**self._heading, **kind, "choices": choices}

    def _choice(self, piece: Piece, said: dict[str, Any], under: str = "delta") -> dict[str, Any]:
        content = {under: said} if self._chat else {"text": piece.text}
        return {"index": 0, **content, "logprobs": self._said_logprobs(piece), "finish_reason": piece.finish}

    def _said_logprobs(self, piece: Piece) -> dict[str, Any] | None:
        if not self._logprobs:
            return None
        if self._chat:
            return {"content": [found.model_dump() for found in piece.logprobs], "refusal": None}
        lengths = (len(found.token) for found in piece.logprobs)
        *offsets, self._offset = accumulate(lengths, initial=self._offset)
        return {
            "tokens": [one.token for one in piece.logprobs],
            "token_logprobs": [one.logprob for one in piece.logprobs],
            "top_logprobs": [_by_text(one) for one in piece.logprobs],
            "text_offset": offsets,
        }


class AnswerStream(Response):
    """An answer as server-sent events from their bodies; it calls `leave` at the end or when the client has gone."""

    def __init__(
        self,
        bodies: AsyncGenerator[dict[str, Any]],
        headers: Mapping[str, str],
        send_seconds: float,
        leave: Callable[[], None],
    ) -> None:
        unbuffered = {"cache-control": "no-cache", "x-accel-buffering": "no", **headers}
        super().__init__(headers=unbuffered, media_type="text/event-stream")
        del self.headers["content-length"]
        self._bodies = bodies
        self._send_seconds = send_seconds
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write until the end, or until the client leaves."""
        try:
            await until_gone(receive, self._write(send))
        finally:
            self._leave()  # a generator that was never begun runs no end of its own

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with aclosing(self._bodies):
                async for body in self._bodies:
                    async with asyncio.timeout(self._send_seconds):  # who does not read holds a place for nothing
                        await send({"type": "http.response.body", "body": _event(body), "more_body": True})
            last = b"data: [DONE]\n\n"
        except TimeoutError:
            return
        except asyncio.CancelledError:  # --grace is over, or nobody reads this
            last = _event(error_body(ENDS, "server_error"))
        except Exception:  # noqa: BLE001 - whatever it is, the client gets a sentence
            _log.exception("a request failed")
            last = _event(error_body(FAILED, "server_error")) + b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": last, "more_body": False})


def _by_text(found: TokenLogprob) -> dict[str, float]:
    """The candidates by their text, the token's own first; what reads alike is told apart by bytes, then by its id."""
    named = {found.token: found.logprob} if found.top_logprobs else {}
    for one in found.top_logprobs:
        if one.id != found.id:
            names = (one.token, "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.bytes), f"token_id:{one.id}")
            named[next(name for name in names if name not in named)] = one.logprob
    return named


def _event(body: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
