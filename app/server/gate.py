"""The ASGI middleware before Gradio: it refuses addresses that the page does not use, other sites, and unusable bodies.

Gradio serves more than this app needs: files by path or address, recordings, monitoring. An address that is not named
here does not exist. How bodies are read and names are known is the endpoint's code (mars/serve/guard.py). Slow clients,
many connections and rates are left to a proxy (docs/serving.md).
"""

import asyncio
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qs

from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.policy import common_headers, page_policy
from mars.serve import RequestLimits
from mars.serve.guard import BodyReader, given, host_name, is_among, is_safe

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
_ROUTES = [
    (frozenset(methods.split()), re.compile(path))
    for methods, path in (
        ("GET HEAD", r"/|/config/?|/healthz|/code\.svg|/theme\.css|/robots\.txt|/favicon\.ico|/manifest\.json|/logout"),
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
]
_JSON = re.compile(rf"{API}/(queue/join|cancel|reset/?|run/.*|call/.*)")
_CALL = re.compile(rf"/|{API}/call/.*")
_SESSION = re.compile(r"[\w.-]{1,64}", re.ASCII)
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

    `hosts` are the names by which a request may call the server besides IP addresses and localhost, None for any name;
    `shown_at` are those at which a proxy or a forwarded port shows the page, so that a browser may name them as the
    origin (`*.example.org` stands for every name below), `root_path` the path at which a proxy shows it. `framed_by` is
    a site that may show it in a frame. `events` are the numbers of Gradio's events, None for any.
    """

    framed_by: str = ""
    hosts: Collection[str] | None = None
    shown_at: Collection[str] = ()
    root_path: str = ""
    events: Collection[int] | None = None

    def inner_path(self, path: str) -> str:
        """The path without the prefix at which a proxy shows the page."""
        return path.removeprefix(self.root_path) if path.startswith(self.root_path + "/") else path

    def refusal(self, method: str, path: str, headers: Headers) -> int:
        """The HTTP status of the refusal of a request, 0 if it may pass."""
        host = headers.get("host", "")
        name = host_name(host)  # another site could point its own one here and read the page's answers
        if not (self.hosts is None or is_safe(name) or name in self.hosts or self.is_shown_at(host)):
            return 421
        if "content-length" in headers and "transfer-encoding" in headers:
            return 400  # two ends, and a proxy may have taken the other one
        methods = [methods for methods, pattern in _ROUTES if pattern.fullmatch(path)]
        if not methods:
            return 404
        if not any(method in allowed for allowed in methods):
            return 405
        if not self._from_here(headers) and not (path == "/" and method in ("GET", "HEAD")):
            return 403
        length = headers.get("content-length", "0")
        return 0 if length.isascii() and length.isdecimal() else 400

    def is_shown_at(self, host: str) -> bool:
        """True for a name at which a proxy shows the page."""
        return is_among(host_name(host), self.shown_at)

    def _from_here(self, headers: Headers) -> bool:
        """True unless another site's page sent the request: a browser names the origin truly, a program names none."""
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return False
        origin = headers.get("origin")
        host = (origin or "").partition("://")[2]
        return origin is None or (bool(host) and (host == headers.get("host") or self.is_shown_at(host)))


class Gate:
    """The middleware."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._headers = common_headers(rules.framed_by)
        self._bodies = BodyReader(RequestLimits(body_bytes=LARGEST_BODY, body_seconds=BODY_SECONDS))
        self._unread = Unread()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one HTTP request. Of other scopes only the server's own `lifespan` is passed on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        path, answer = self._rules.inner_path(scope["path"]), _Answer(send, self._headers, self._rules.framed_by)
        try:
            if status := self._rules.refusal(scope["method"], path, Headers(scope=scope)):
                raise HTTPException(status)
            await self._pass(scope, path, receive, answer)
        except HTTPException as error:
            await refusal(error.status_code)(scope, receive, answer.send)
        except Exception as error:  # noqa: BLE001 - whatever it was, no word of it goes out
            await self._failed(error, scope, path, receive, answer)

    async def _failed(self, error: Exception, scope: Scope, path: str, receive: Receive, answer: "_Answer") -> None:
        """Answer a request that failed; a stream of events that has begun ends."""
        if answer.begun and not answer.streams:
            raise error
        callers = _CALL.fullmatch(path) is not None and isinstance(error, KeyError | TypeError | ValueError)
        if not callers:
            _log.error("a request failed", exc_info=error)
        if answer.begun:
            await answer.send({"type": "http.response.body", "body": b""})
        else:
            await refusal(422 if callers else 500)(scope, receive, answer.send)

    async def _pass(self, scope: Scope, path: str, receive: Receive, answer: "_Answer") -> None:
        """Check the body and hand the request on. HTTPException if the body is refused."""
        queued = path == f"{API}/queue/join" or path.startswith(f"{API}/call/")
        session = asking = ""
        if scope["method"] == "POST":
            whole = await self._bodies.read(Headers(scope=scope), receive)
            if whole is None:
                return  # the client has gone
            body = whole
            if _JSON.fullmatch(path):
                check = partial(self._check_json, path)
                body, session = check(body) if len(body) <= SMALL_BODY else await asyncio.to_thread(check, body)
            receive = given(body, receive)
        if queued and scope["method"] == "POST":
            asking = self._unread.asked(scope, session)
        elif queued or path == f"{API}/queue/data":
            self._unread.read(scope)
        try:
            await self._app(self._trusted(scope), receive, answer.send)
        finally:
            if asking and answer.status != 200:
                self._unread.forget(scope, asking)

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
        known = self._rules.events
        is_event = type(event) is int and event >= 0 and (known is None or event in known)
        if not (named or is_event) or _names_a_file(content):
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
        """A session asks; returns its name, or one for a caller without, and "" if it has an answer to read already.

        HTTPException if too many do not read.
        """
        address, now = _address(scope), time.monotonic()
        waiting = {name: at for name, at in self._asked[address].items() if now - at < UNREAD_SECONDS}
        if len(waiting) >= MOST_UNREAD and session not in waiting:
            raise HTTPException(429)
        name = session or str(now)
        self._asked[address] = {**waiting, name: now}
        return "" if session in waiting else name

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

    def __init__(self, send: Send, headers: dict[str, str], framed_by: str) -> None:
        self.begun = self.streams = False
        self.status = 0
        self._send = send
        self._headers = headers
        self._framed_by = framed_by
        self._page: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._page = None  # of an answer that failed
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
            MutableHeaders(scope=self._page)["content-security-policy"] = page_policy(self._body, self._framed_by)
            await self._send(self._page)
            message, self._page = {"type": "http.response.body", "body": self._body}, None
        self.begun = True
        await self._send(message)


async def explained(request: Request, error: Exception) -> Response:
    """The answer to an exception of Gradio's routes, whose own words may quote the request."""
    status = getattr(error, "status_code", 422)
    own = isinstance(error, HTTPException) and (status in (401, 503) or request.url.path.endswith("/login"))
    return JSONResponse({"detail": error.detail}, status) if own else refusal(status)  # type: ignore[attr-defined]


def refusal(status: int) -> Response:
    """Our sentence for a status, under both names that Gradio's clients read."""
    said = _SENTENCES.get(status) or HTTPStatus(status).phrase
    headers = {"connection": "close"} if status in _CLOSING else None
    return JSONResponse({"detail": said, "error": said}, status, headers=headers)


def _bulk(body: bytes) -> int:
    """How many bytes of JSON are outside its strings, which are every other part between quotes, and its quotes."""
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


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])
