"""Before the endpoint: who may ask (Host, Origin, API keys), how large a body may be, and how many requests there are.

Errors are in OpenAI's form. TLS, rates and slow networks are a proxy's (docs/serving.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mars.lines import read_lines
from mars.serve import RequestLimits
from mars.serve.schema import error_body

KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
GUARDED = "/v1/"
UNCOUNTED = ("/health", "/metrics")
"""Addresses that the limit on requests at once does not hold for: a busy server must not look like a dead one."""
LEFT = 499
"""The status of a request whose client has left: nobody reads it, and the metrics count it."""
FAILED = "the server made a mistake; its log says more"
ENDS = "the server is being stopped: ask again in a moment"
_DRAIN_SECONDS = 5.0
_SHORTEST_KEY = 8
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?")
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


def digest(key: str) -> bytes:
    """What is kept of an API key: the time of a comparison of digests reveals nothing about it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(file: Path) -> frozenset[bytes]:
    """One key a line; blank lines and lines that begin with # are skipped. No message repeats a key.

    ValueError where the file cannot be read, holds no key, or one too short.
    """
    keys = [line.strip() for _, line in read_lines(file) if not line.lstrip().startswith("#")]
    if not keys:
        raise ValueError(f"the file of keys {file} holds none: write one a line")
    if any(len(key) < _SHORTEST_KEY for key in keys):
        raise ValueError(f"a key in {file} has fewer than {_SHORTEST_KEY} characters: make it longer")
    return frozenset(map(digest, keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """Who may ask: `keys`, if they are asked for, as digests; `hosts`, by which a browser may call the server.

    IP addresses and localhost may always be called. `origins` are those of pages of other sites that may ask, "*" for
    all of them.
    """

    keys: Collection[bytes] | None = None
    hosts: Collection[str]
    origins: Collection[str] = ()

    def refusal(self, path: str, headers: Headers) -> ApiError | None:
        """The error of a request that may not be made.

        Without keys the name counts: another site could point a name of its own here, and its page read the answers.
        """
        name = host_name(headers.get("host", ""))
        if self.keys is None and not is_safe(name) and not is_among(name, self.hosts):
            return ApiError(421, f"this server does not answer to {name[:64]!r}: start it with --allowed-host")
        origin = headers.get("origin")
        elsewhere = origin is not None and origin.partition("://")[2] != headers.get("host")
        if elsewhere and not {origin, "*"}.intersection(self.origins):
            return ApiError(
                403, f"a page at {str(origin)[:64]!r} may not ask this server: start it with --allow-origin"
            )
        scheme, _, key = headers.get("authorization", "").partition(" ")
        known = self.keys is None or (scheme.lower() == "bearer" and digest(key.strip()) in self.keys)
        if not known and path.startswith(GUARDED):
            return ApiError(
                401,
                "the API key is missing or wrong: send a header Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            return ApiError(400, "a body has one end: send content-length or transfer-encoding", headers=_CLOSING)
        return None


_CLOSING = {"connection": "close"}  # where the next request begins is not sure


def host_name(host: str) -> str:
    """The name in `name:port`, in lower case; empty if it is none."""
    return (urlsplit(f"//{host}").hostname or "") if _HOST.fullmatch(host) else ""


def is_safe(name: str) -> bool:
    """Whether another site cannot point this name here: an IP address, or localhost."""
    try:
        return bool(ip_address(name))
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def is_among(name: str, known: Collection[str]) -> bool:
    """Whether a name is known; `*.example.org` stands for every name below."""
    return name in known or any(each.startswith("*.") and name.endswith(each[1:]) for each in known)


class Guard:
    """ASGI middleware: it reads the whole body before the app does. It calls `answered` with each route and status."""

    def __init__(
        self, app: ASGIApp, limits: RequestLimits, callers: Callers, answered: Callable[[str, int], None]
    ) -> None:
        self._app = app
        self._limits = limits
        self._callers = callers
        self._answered = answered
        self._busy = 0
        self._bodies = BodyReader(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route, begun = scope["path"], False

        async def counted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._answered(route, message["status"])
            await send(message)

        try:
            headers = Headers(scope=scope)
            body = await self._bodies.read(headers, receive, self._callers.refusal(route, headers))
            if body is None:
                self._answered(route, LEFT)
                return
            await self._pass_on(scope, given(body, receive), counted)
        except ApiError as error:
            await error.response(scope, receive, counted)
        except asyncio.CancelledError:  # --grace is over; a stream has said so itself
            if not begun:
                ending = ApiError(503, ENDS, headers={"retry-after": "1", **_CLOSING})
                await ending.response(scope, receive, counted)
        except Exception:
            _log.exception("a request failed")
            if begun:
                raise
            await ApiError(500, FAILED).response(scope, receive, counted)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer, unless it answers too many already."""
        counts = scope["path"] not in UNCOUNTED
        if counts and self._busy >= self._limits.connections:
            raise ApiError(
                429,
                f"the server has {self._busy} requests at once and takes no more: try again in a moment",
                code="rate_limit_exceeded",
                headers={"retry-after": "1"},
            )
        self._busy += counts
        try:
            await self._app(scope, receive, send)
        finally:
            self._busy -= counts


class BodyReader:
    """Reads bodies: no larger and no slower than the limits allow; of too many on their way the oldest gives way."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._arriving: deque[asyncio.Timeout] = deque()

    async def read(self, headers: Headers, receive: Receive, refused: ApiError | None = None) -> bytes | None:
        """The whole body; None if its client has left.

        What is refused is read on for a moment all the same: a client that is still sending would miss the answer.
        Then it raises `refused`, or an ApiError of its own where the body is too large or too slow.
        """
        length = headers.get("content-length", "0")
        if refused is None and length.isascii() and length.isdecimal() and int(length[:20]) > self._limits.body_bytes:
            refused = self._too_large()
        if refused is not None and "expect" in headers:
            raise refused
        parts, left, loop = list[bytes](), self._limits.body_bytes, asyncio.get_running_loop()
        until = loop.time() + (self._limits.body_seconds if refused is None else _DRAIN_SECONDS)
        try:
            async with asyncio.timeout_at(until) as waiting:
                self._arriving.append(waiting)
                if len(self._arriving) > self._limits.connections:
                    with suppress(RuntimeError):  # its time is over already
                        self._arriving.popleft().reschedule(loop.time())  # the oldest gives way
                while (message := await receive())["type"] == "http.request":
                    parts.append(message.get("body", b"") if refused is None else b"")
                    left -= len(parts[-1])
                    if left < 0 and refused is None:
                        refused, parts = self._too_large(), []
                        waiting.reschedule(loop.time() + _DRAIN_SECONDS)
                    if not message.get("more_body", False):
                        break
                else:
                    return None
        except TimeoutError:
            late = f"the body did not arrive within {self._limits.body_seconds:g} seconds"
            says = late if loop.time() >= until else "too many bodies arrive at once, of which this one was the oldest"
            refused = refused or ApiError(408, says, code="timeout", headers=_CLOSING)
        finally:
            with suppress(ValueError):
                self._arriving.remove(waiting)
        if refused is not None:
            raise refused
        return b"".join(parts)

    def _too_large(self) -> ApiError:
        says = f"the body is larger than the {self._limits.body_bytes:,} bytes that are read"
        return ApiError(413, says, code="too_large")


def given(body: bytes, receive: Receive) -> Receive:
    """What gives the app this body, and then whatever else comes."""
    first = [body]

    async def again() -> Message:
        return {"type": "http.request", "body": first.pop(), "more_body": False} if first else await receive()

    return again


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
    """uvicorn's connection; of more than `most`, the oldest one that asks nothing is dropped for a new one."""

    most: ClassVar[int] = 1024
    _numbers: ClassVar[count[int]] = count()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.number = next(self._numbers)
        super().connection_made(transport)
        others: Iterable[Any] = self.connections
        opened = [one for one in others if not one.transport.is_closing()]
        if len(opened) > self.most:
            idle = [one for one in opened if one.cycle is None or one.cycle.response_complete]
            min(idle, key=lambda one: one.number).transport.close()


def protocol(limits: RequestLimits) -> type[H11Protocol]:
    """The connections of a server with these limits."""
    return type("LimitedConnection", (Connection,), {"most": 2 * limits.connections})
