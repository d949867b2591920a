"""The ASGI middleware before Gradio: it refuses addresses that the page does not use, other sites, and unusable bodies.

Gradio serves more than this app needs: files by path or address, recordings, monitoring. An address that is not named
here does not exist. Slow clients, many connections and rates are left to a proxy (docs/serving.md).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.policy import common_headers, page_policy
from mars.serve.guard import ApiError

LARGEST_BODY = 8 * 2**20  # a saved run, as JSON within JSON
BODY_SECONDS = 30.0
SMALL_BODY = 64 * 2**10
"""Bytes of a body that are read on the event loop; a larger one is read in a thread."""
MOST_STRUCTURE = 256 * 2**10
"""What a body may have outside of its strings: a saved run comes as one string."""
MOST_UNREAD, UNREAD_SECONDS = 32, 120.0
"""Sessions of one address that have asked something and do not read the answer, which Gradio keeps for them."""
API = "/gradio_api"
_RUN = r"/runs/[0-9a-f]{32}"
_ROUTES = (
    ("GET HEAD", r"/|/config/?|/healthz|/theme\.css|/robots\.txt|/favicon\.ico|/manifest\.json|/logout"),
    ("GET HEAD", r"/(assets|static|svelte)/[!-~]{1,200}"),
    ("GET", rf"{_RUN}/events"),
    ("POST", rf"{_RUN}/leave"),
    ("POST", r"/login/?"),
    ("GET", rf"{API}/(user|login_check|token|app_id|info|startup-events)/?"),
    ("GET", rf"{API}/(openapi\.json|theme\.css|queue/data|queue/status)"),
    ("POST", rf"{API}/(queue/join|cancel|reset/?|run/\w{{1,64}}/?)"),
    ("POST", rf"{API}/call/(v2/)?\w{{1,64}}/?"),
    ("GET", rf"{API}/call/(v2/)?\w{{1,64}}/[\w-]{{1,64}}"),
)
_MCP_ROUTE = ("GET POST DELETE", rf"{API}/mcp(/[\w./-]*)?")
_UPLOAD_ROUTES = (("POST", rf"{API}/upload"), ("GET", rf"{API}/upload_progress"))
_OPENAI_ROUTES = (("GET HEAD", r"/v1/models(/.+)?|/v1/mars|/health|/metrics"), ("POST", r"/v1/(chat/)?completions"))
_JSON = re.compile(rf"{API}/(queue/join|cancel|reset|run/.*|call/.*)")
_CALL = re.compile(rf"/|{API}/call/.*")
_SESSION = re.compile(r"[\w.-]{1,64}", re.ASCII)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SENTENCES = {
    400: "The app cannot read this request.",
    401: "Log in first.",
    403: "The request came from another site. If a proxy or a forwarded port shows the page there, start the app with "
    "--allowed-host NAME to allow it.",
    404: "There is nothing at this address.",
    405: "This address takes no such request.",
    408: "The request took too long to arrive. Try again.",
    413: "The request is larger than the app reads.",
    421: "This app does not answer to that name. Start it with --allowed-host NAME to allow it.",
    422: "A field of the request is missing or has the wrong type.",
    429: "Too many answers wait to be read at this address. Read them, or try again in two minutes.",
    500: "The app made a mistake; its terminal says more. Try again.",
    503: "The app is busy. Try again in a moment.",
}
_CLOSING = {400, 408, 413, 421}  # where the next request begins is not sure
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of one gate.

    `hosts` are the names by which a request may call the server, None for any name; `shown_at` are those among them at
    which a proxy or a forwarded port shows the page, so that a browser may name them as the origin. `*.example.org`
    stands for every name below. With `any_number` the server may be called by any IP address. `events` are the numbers
    of Gradio's events, None for any.
    """

    frame_ancestors: tuple[str, ...] = ()
    hosts: Collection[str] | None = None
    shown_at: Collection[str] = ()
    any_number: bool = False
    root_path: str = ""
    uploads: bool = False
    mcp: bool = False
    openai: bool = False
    events: Collection[int] | None = None
    largest_body: int = LARGEST_BODY

    @cached_property
    def routes(self) -> list[tuple[frozenset[str], re.Pattern[str]]]:
        """Methods and paths that exist."""
        known = [*_ROUTES, *(_UPLOAD_ROUTES if self.uploads else ()), *([_MCP_ROUTE] if self.mcp else ())]
        known += _OPENAI_ROUTES if self.openai else ()
        return [(frozenset(methods.split()), re.compile(path)) for methods, path in known]

    def inner_path(self, path: str) -> str:
        """The path without the prefix at which a proxy shows the page."""
        prefix = urlsplit(self.root_path).path
        return path.removeprefix(prefix) if prefix and path.startswith(prefix + "/") else path

    def refusal(self, method: str, path: str, headers: Headers) -> int:
        """The HTTP status of the refusal of a request, 0 if it may pass."""
        if not self._is_called(headers.get("host", "")):
            return 421
        if "content-length" in headers and "transfer-encoding" in headers:
            return 400  # two ends, and a proxy may have taken the other one
        methods = [methods for methods, pattern in self.routes if pattern.fullmatch(path)]
        if not methods:
            return 404
        if not any(method in allowed for allowed in methods):
            return 405
        if not self._from_here(headers) and not (path == "/" and method in ("GET", "HEAD")):
            return 403
        length = headers.get("content-length", "0")
        return 0 if length.isascii() and length.isdecimal() and int(length) <= self.largest_body else 413

    def is_shown_at(self, host: str) -> bool:
        """True for a name at which a proxy shows the page."""
        name = _name(host)
        return name in self.shown_at or any(
            known.startswith("*.") and name.endswith(known[1:]) for known in self.shown_at
        )

    def _is_called(self, host: str) -> bool:
        """True for a name of this server. Else another site could point its name here and read the page's answers."""
        name = _name(host)
        if self.hosts is None or name in LOOPBACK or name in self.hosts or self.is_shown_at(host):
            return True
        try:
            number = ip_address(name)
        except ValueError:
            return name.endswith(".localhost")
        return self.any_number or number.is_loopback

    def _from_here(self, headers: Headers) -> bool:
        """True unless another site's page sent the request: a browser names the origin truly, a program names none."""
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return False
        origin = headers.get("origin")
        host = urlsplit(origin or "").netloc
        return origin is None or (bool(host) and (host == headers.get("host") or self.is_shown_at(host)))


class Gate:
    """The middleware."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._headers = common_headers(rules.frame_ancestors)
        self._unread = Unread()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one HTTP request. Of other scopes only the server's own `lifespan` is passed on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        path, answer = self._rules.inner_path(scope["path"]), _Answer(send, self._headers, self._rules.frame_ancestors)
        try:
            if status := self._rules.refusal(scope["method"], path, Headers(scope=scope)):
                raise HTTPException(status)
            await self._pass(scope, path, receive, answer)
        except HTTPException as error:
            await refusal(error.status_code, path)(scope, receive, answer.send)
        except Exception as error:  # noqa: BLE001 - whatever it was, no word of it goes out
            await self._failed(error, scope, path, receive, answer)

    async def _failed(self, error: Exception, scope: Scope, path: str, receive: Receive, answer: _Answer) -> None:
        """Answer a request that failed; a stream of events that has begun ends."""
        if answer.begun and not answer.streams:
            raise error
        callers = _CALL.fullmatch(path) is not None and isinstance(error, KeyError | TypeError | ValueError)
        if not callers:
            _log.error("a request failed", exc_info=error)
        if answer.begun:
            await answer.send({"type": "http.response.body", "body": b""})
        else:
            await refusal(422 if callers else 500, path)(scope, receive, answer.send)

    async def _pass(self, scope: Scope, path: str, receive: Receive, answer: _Answer) -> None:
        """Check the body and hand the request on. HTTPException if the body is refused."""
        queued = path == f"{API}/queue/join" or path.startswith(f"{API}/call/")
        limited = path.startswith((f"{API}/mcp", f"{API}/upload", "/v1/"))  # by rules of their own
        session = ""
        if scope["method"] == "POST" and not limited:
            body = await _whole(receive, self._rules.largest_body)
            if _JSON.fullmatch(path):
                check = partial(self._check_json, path)
                body, session = check(body) if len(body) <= SMALL_BODY else await asyncio.to_thread(check, body)
            receive = _given(body, receive)
        if queued and scope["method"] == "POST":
            session = self._unread.asked(scope, session)
        elif queued or path == f"{API}/queue/data":
            self._unread.read(scope)
        try:
            await self._app(self._trusted(scope), receive, answer.send)
        finally:
            if answer.status != 200:
                self._unread.forget(scope, session)

    def _check_json(self, path: str, body: bytes) -> tuple[bytes, str]:
        """The body, a JSON object that names a possible session and event and no file, and its session.

        Lone surrogates become U+FFFD, since they cannot be encoded. Gradio would fetch the address of a file.
        HTTPException if it is refused.
        """
        if _bulk(body) > MOST_STRUCTURE:
            raise HTTPException(413)
        try:  # both readers have an end to how deep lists may lie
            if b"\\ud" in body.lower():
                text = json.dumps(json.loads(body), ensure_ascii=False)
                body = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
            content = from_json(body)
        except (ValueError, RecursionError):
            raise HTTPException(400) from None
        if not isinstance(content, dict):
            raise HTTPException(400)
        session, event = content.get("session_hash"), content.get("fn_index")
        if isinstance(session, str) and not _SESSION.fullmatch(session):
            raise HTTPException(400)  # sessions are kept by their names
        named = event is None and path.rstrip("/") != f"{API}/run/predict"  # which has no name of an event
        if not named and not _is_event(event, self._rules.events):
            raise HTTPException(422)
        if not self._rules.uploads and _names_a_file(content):
            raise HTTPException(422)
        return body, session if isinstance(session, str) else ""

    def _trusted(self, scope: Scope) -> Scope:
        """The request without forged headers about the address of the page."""
        headers = MutableHeaders(raw=list(scope["headers"]))
        if not self._rules.is_shown_at(headers.get("x-forwarded-host", "")):
            del headers["x-forwarded-host"]
        if headers.get("x-forwarded-proto") not in ("http", "https"):
            del headers["x-forwarded-proto"]
        return {**scope, "headers": headers.raw}


class Unread:
    """Counts the sessions of each address that have asked something and have not begun to read the answer."""

    def __init__(self) -> None:
        self._asked: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def asked(self, scope: Scope, session: str) -> str:
        """A session asks; returns its name, or one for a caller without. HTTPException if too many do not read."""
        address, now = _address(scope), time.monotonic()
        waiting = {name: at for name, at in self._asked[address].items() if now - at < UNREAD_SECONDS}
        if len(waiting) >= MOST_UNREAD and session not in waiting:
            raise HTTPException(429)
        session = session or str(now)
        self._asked[address] = {**waiting, session: now}
        return session

    def forget(self, scope: Scope, session: str) -> None:
        """What this session asked was refused."""
        self._asked[_address(scope)].pop(session, None)

    def read(self, scope: Scope) -> None:
        """A session, or with `/call/` one that has no name, reads its answers."""
        address = _address(scope)
        waiting = self._asked.get(address, {})
        for name in parse_qs(scope["query_string"].decode("latin-1")).get("session_hash", list(waiting)[:1]):
            waiting.pop(name, None)
        if not waiting:
            self._asked.pop(address, None)


class _Answer:
    """Sends the answer of the app on, with the common headers; a page only when it is complete, with its policy."""

    def __init__(self, send: Send, headers: dict[str, str], ancestors: tuple[str, ...]) -> None:
        self.begun = self.streams = False
        self.status = 0
        self._send = send
        self._headers = headers
        self._ancestors = ancestors
        self._page: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, headers = message["status"], MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
            self.streams = headers.get("content-type", "").startswith("text/event-stream")
            if headers.get("content-type", "").startswith("text/html"):
                self._page = message
                return
        elif self._page is not None:
            self._body += message.get("body", b"")
            if message.get("more_body", False):
                return
            MutableHeaders(scope=self._page)["content-security-policy"] = page_policy(self._body, self._ancestors)
            await self._send(self._page)
            message, self._page = {"type": "http.response.body", "body": self._body}, None
        self.begun = True
        await self._send(message)


async def explained(request: Request, error: Exception) -> Response:
    """The answer to an exception of Gradio's routes, whose own words may quote the request."""
    status = getattr(error, "status_code", 422)
    own = isinstance(error, HTTPException) and (status in (401, 503) or request.url.path.endswith("/login"))
    return JSONResponse({"detail": error.detail}, status) if own else refusal(status, request.url.path)  # type: ignore[attr-defined]


def refusal(status: int, path: str) -> Response:
    """Our sentence for a status, in the form that the clients of the path read."""
    said = sentence(status)
    body = ApiError(status, said).body if path.startswith("/v1/") else {"detail": said, "error": said}
    return JSONResponse(body, status, headers={"connection": "close"} if status in _CLOSING else None)


def sentence(status: int) -> str:
    """Our sentence for a status."""
    return _SENTENCES.get(status) or HTTPStatus(status).phrase


def _given(body: bytes, receive: Receive) -> Receive:
    """Gives the app a body that has been read already."""
    left = [body]

    async def again() -> Message:
        return {"type": "http.request", "body": left.pop()} if left else await receive()

    return again


async def _whole(receive: Receive, most: int) -> bytes:
    """The whole body; HTTPException if it is too large or too slow, or the client has gone."""
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise HTTPException(400)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise HTTPException(413)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise HTTPException(408) from None


def _bulk(body: bytes) -> int:
    """The bytes of JSON outside of its strings, and how many strings there are: found without reading any of it."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    quotes = plain.count(b'"')
    return quotes if quotes > MOST_STRUCTURE else quotes + sum(map(len, plain.split(b'"')[::2]))


def _names_a_file(content: object) -> bool:
    """Whether one of Gradio's objects for a file is anywhere in this JSON."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("_type") == "gradio.FileData" or ("path" in value and "meta" in value):
                return True
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False


def _is_event(number: object, known: Collection[int] | None) -> bool:
    return type(number) is int and number >= 0 and (known is None or number in known)


def _name(host: str) -> str:
    """The name in `name:port`, in lower case; empty if it is none."""
    return (urlsplit(f"//{host}").hostname or "") if _HOST.fullmatch(host) else ""


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])
