"""Before the endpoint: who may ask (Host, Origin, API keys), how large a body may be, and how many requests there are.

Errors are in OpenAI's form. TLS, rates and slow networks are a proxy's (docs/serving.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mars.lines import read_lines
from mars.serve import Limits
from mars.serve.schema import error_body

KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
GUARDED = "/v1/"
UNCOUNTED = ("/health", "/metrics")
"""Addresses that the limit on requests at once does not hold for: a busy server must not look like a dead one."""
LEFT = 499
"""The status of a request whose client has left: nobody reads it, and the metrics count it."""
FAILED = "the server made a mistake; its log says more"
_DRAIN_SECONDS = 5.0
_SHORTEST_KEY = 8
_log = logging.getLogger(__name__)


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

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def __len__(self) -> int:
        return len(self._digests)

    def know(self, authorization: str | None) -> bool:
        """Whether the header is `Bearer` and one of the keys."""
        scheme, _, key = (authorization or "").partition(" ")
        given = _digest(key.strip())
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        return scheme.lower() == "bearer" and any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(file: Path) -> Keys:
    """One key a line; blank lines and lines that begin with # are skipped. No message repeats a key.

    Raises:
        ValueError: one sentence: the file cannot be read, holds no key, or one too short.
    """
    keys = [line.strip() for _, line in read_lines(file) if not line.lstrip().startswith("#")]
    if not keys:
        raise ValueError(f"the file of keys {file} holds none: write one a line")
    if any(len(key) < _SHORTEST_KEY for key in keys):
        raise ValueError(f"a key in {file} has fewer than {_SHORTEST_KEY} characters: make it longer")
    return Keys(keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """Who may ask: `keys`, if they are asked for; `hosts` are the names by which a browser may call the server.

    None stands for any name. IP addresses and localhost may always be called. `origins` are those of pages of other
    sites that may ask, "*" for all of them.
    """

    keys: Keys | None = None
    hosts: Collection[str] | None = None
    origins: Collection[str] = ()

    def check(self, path: str, headers: Headers) -> None:
        """Raise ApiError for a request that may not be made.

        Without keys the name counts: another site could point a name of its own here, and its page read the answers.
        """
        name = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if self.keys is None and self.hosts is not None and not _is_local(name) and name not in self.hosts:
            raise ApiError(421, f"this server does not answer to {name[:64]!r}: start it with --allowed-host")
        origin = headers.get("origin")
        elsewhere = origin is not None and urlsplit(origin).netloc != headers.get("host")
        if elsewhere and not {origin, "*"}.intersection(self.origins):
            raise ApiError(403, f"a page at {str(origin)[:64]!r} may not ask this server: start it with --allow-origin")
        if self.keys is not None and path.startswith(GUARDED) and not self.keys.know(headers.get("authorization")):
            raise ApiError(
                401,
                "the API key is missing or wrong: send a header Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            raise ApiError(400, "a body has one end: send content-length or transfer-encoding", headers=CLOSING)


CLOSING = {"connection": "close"}  # where the next request begins is not sure


def _is_local(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


class Guard:
    """ASGI middleware: it reads no more of a body than is allowed. It calls `answered` with each route and status."""

    def __init__(self, app: ASGIApp, limits: Limits, callers: Callers, answered: Callable[[str, int], None]) -> None:
        self._app = app
        self._limits = limits
        self._callers = callers
        self._answered = answered
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route, begun = scope["path"], False
        body = _Body(receive, self._limits.body_bytes)

        async def counted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._answered(route, message["status"])
            await send(message)

        counts = False
        try:
            self._check(scope)
            counts = route not in UNCOUNTED
            self._busy += counts
            await self._app(scope, body.receive, counted)
        except ApiError as error:
            await body.drain()
            await error.response(scope, receive, counted)
        except ClientDisconnect:
            self._answered(route, LEFT)
        except Exception:
            _log.exception("a request failed")
            if begun:
                raise
            await ApiError(500, FAILED).response(scope, receive, counted)
        finally:
            self._busy -= counts

    def _check(self, scope: Scope) -> None:
        """Raise ApiError for a request that may not be made, or not now."""
        headers = Headers(scope=scope)
        self._callers.check(scope["path"], headers)
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdecimal() and int(length[:20]) > self._limits.body_bytes:
            raise too_large(self._limits.body_bytes)
        if self._busy >= self._limits.connections and scope["path"] not in UNCOUNTED:
            raise ApiError(
                429,
                f"the server has {self._busy} requests at once and takes no more: try again in a moment",
                code="rate_limit_exceeded",
                headers={"retry-after": "1"},
            )


class _Body:
    """The body of a request, of which so many bytes may be read."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = self._left = most
        self._ended = False

    async def receive(self) -> Message:
        """The next part, or whatever else comes; ApiError once there are too many bytes."""
        message = await self._receive()
        self._ended |= not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            await self.drain()
            raise too_large(self._most)
        return message

    async def drain(self) -> None:
        """Read on for a moment: a client that is still sending would miss the answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self._ended:
                    self._ended = not (await self._receive()).get("more_body", False)


def too_large(most: int) -> ApiError:
    """The error for a body of more bytes than that."""
    return ApiError(413, f"the body is larger than the {most:,} bytes that are read", code="too_large")


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
