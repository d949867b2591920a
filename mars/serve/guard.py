"""ASGI middleware of the endpoint: API keys, and limits on size, pace and number. Errors are in OpenAI's form."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

import h11
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mars.serve import Limits
from mars.serve.schema import error_body

KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
GUARDED = "/v1/"
UNCOUNTED = ("/health", "/metrics")
"""Addresses that the limit on requests at once does not hold for: a busy server must not look like a dead one."""
_DRAINED = 16 * 2**20
_DRAIN_SECONDS = 5.0
_SHORTEST_KEY = 8


class ApiError(HTTPException):
    """A request that is refused, with one sentence; `param` is the parameter at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        kind = KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.body = error_body(message, kind, param, code)

    @property
    def response(self) -> JSONResponse:
        """The error as it is sent."""
        return JSONResponse(self.body, status_code=self.status_code, headers=dict(self.headers or {}))


class Keys:
    """API keys, kept as digests. The time of a comparison reveals nothing about them."""

    def __init__(self, keys: Mapping[str, str] | list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def __len__(self) -> int:
        return len(self._digests)

    def know(self, authorization: str | None) -> bool:
        """Whether the header is `Bearer` and one of the keys."""
        scheme, _, key = (authorization or "").partition(" ")
        given = _digest(key.strip())
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        return scheme.lower() == "bearer" and any(matches)


def read_keys(file: Path) -> Keys:
    """One key a line; blank lines and lines that begin with # are skipped. No message repeats a key.

    Raises:
        ValueError: one sentence: the file cannot be read, holds no key, or one too short.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ValueError(f"the file of keys {file} cannot be read ({type(error).__name__})") from error
    keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise ValueError(f"the file of keys {file} holds none: write one a line")
    if any(len(key) < _SHORTEST_KEY for key in keys):
        raise ValueError(f"a key in {file} has fewer than {_SHORTEST_KEY} characters: make it longer")
    return Keys(keys)


class Guard:
    """ASGI middleware: keys and limits, before anything is parsed. It calls `answered` with each route and status."""

    def __init__(self, app: ASGIApp, limits: Limits, keys: Keys | None, answered: Callable[[str, int], None]) -> None:
        self._app = app
        self._limits = limits
        self._keys = keys
        self._answered = answered
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = scope["path"]

        body = Body(receive, self._limits)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                await body.drain()  # the app may refuse what it has not read
                self._answered(route, message["status"])
            await send(message)

        counts = route not in UNCOUNTED
        self._busy += counts
        try:
            self._check(scope)
            await self._app(scope, body.receive, counted)
        except ApiError as error:
            await error.response(scope, receive, counted)
        finally:
            self._busy -= counts

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._busy > self._limits.connections and scope["path"] not in UNCOUNTED:
            raise ApiError(
                429,
                f"the server has {self._limits.connections} requests at once and takes no more: try again in a moment",
                code="rate_limit_exceeded",
                headers={"retry-after": "1"},
            )
        guarded = self._keys is not None and scope["path"].startswith(GUARDED)
        if guarded and self._keys is not None and not self._keys.know(headers.get("authorization")):
            raise ApiError(
                401,
                "the API key is missing or wrong: send a header Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdecimal() and int(length[:20]) > self._limits.body_bytes:
            raise too_large(self._limits)


class Body:
    """Reads a body for the app, no larger and no slower than allowed."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive = receive
        self._limits = limits
        self._left = limits.body_bytes
        self._until = asyncio.get_running_loop().time() + limits.body_seconds
        self._complete = False

    async def receive(self) -> Message:
        """The next part of the body; after its end, the next message of any kind.

        Raises:
            ApiError: it is too large or too slow.
        """
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            self._complete = True
            seconds = self._limits.body_seconds
            raise ApiError(408, f"the body did not arrive within {seconds:g} seconds", code="timeout") from None
        self._left -= self._take(message)
        if self._left < 0:
            raise too_large(self._limits)
        return message

    async def drain(self) -> None:
        """Read on for a moment, since a client that is still sending would miss the answer."""
        left = _DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self._complete and left > 0:
                    left -= self._take(await self._receive())

    def _take(self, message: Message) -> int:
        """The number of bytes in a part; notes whether it is the last one."""
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        return len(message.get("body", b""))


def too_large(limits: Limits) -> ApiError:
    """The error for a body beyond the limit."""
    return ApiError(413, f"the body is larger than the {limits.body_bytes:,} bytes that are read", code="too_large")


async def until_gone(receive: Receive, work: Awaitable[Any]) -> bool:
    """Do the work; False if the client left before its end, which cancels it."""
    working: asyncio.Future[Any] = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Connection(H11Protocol):
    """uvicorn's connection, closed if a request arrives too slowly, its client stops reading, or there are too many."""

    limits: ClassVar[Limits] = Limits()
    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > 2 * self.limits.connections:
            transport.abort()
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._late, self._stuck):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the time within which the client must send the rest of a request, and end it once that is there.

        That is a head that has begun, on a new connection any head, and a body that was answered before its end.
        `Body` has the time of other bodies, and uvicorn's keep-alive that between two requests.
        """
        if self.conn.our_state is h11.IDLE:
            awaited = self.cycle is None or bool(self.conn.trailing_data[0])
        else:
            awaited = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if not awaited and self._late is not None:
            self._late.cancel()
            self._late = None
        elif awaited and self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(self.limits.body_seconds, self._give_up)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.limits.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is logged: a request that offers another protocol, as Java's clients do, is answered as it is."""

    def send_400_response(self, msg: str) -> None:
        """uvicorn's answer to what is no HTTP, in OpenAI's form."""
        self._refuse(ApiError(400, "what was sent is not HTTP/1.1: send a request", code="invalid_http"))

    def _give_up(self) -> None:
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            seconds = self.limits.body_seconds
            self._refuse(ApiError(408, f"the head did not arrive within {seconds:g} seconds", code="timeout"))
        self.transport.close()

    def _refuse(self, error: ApiError) -> None:
        """Answer what is no whole request, unless an answer has begun, and close."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        response = error.response
        headers = [*response.raw_headers, (b"connection", b"close")]
        head = h11.Response(status_code=error.status_code, headers=headers, reason=HTTPStatus(error.status_code).phrase)
        for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def protocol(limits: Limits) -> type[H11Protocol]:
    """The connections of a server with these limits."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
