"""What every request passes: only what the page uses, from its own origin, no larger than needed, gets an answer.

Gradio serves more than this app needs: files by path or address, recordings, monitoring. What is not in `ROUTES` does
not exist here. What Gradio says when it refuses something may quote the request; a sentence of ours takes its place.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.policy import headers, page_policy

LARGEST_BODY = 8 * 2**20  # a saved run, as JSON within JSON
MOST_AT_ONCE = 200
API = "/gradio_api"
ROUTES = (
    ("GET HEAD", r"/|/config/?|/healthz|/theme\.css|/robots\.txt|/favicon\.ico|/manifest\.json|/logout"),
    ("GET HEAD", r"/(assets|static|svelte)/.+"),
    ("POST", r"/login/?"),
    ("GET", rf"{API}/(user|login_check|token|app_id|info|startup-events)/?"),
    ("GET", rf"{API}/(openapi\.json|theme\.css|queue/data|queue/status|heartbeat/[\w-]{{1,64}})"),
    ("POST", rf"{API}/(queue/join|cancel|reset/?|run/\w{{1,64}}/?)"),
    ("POST", rf"{API}/call/(v2/)?\w{{1,64}}/?"),
    ("GET", rf"{API}/call/(v2/)?\w{{1,64}}/[\w-]{{1,64}}"),
)
MCP_ROUTE = ("GET POST DELETE", rf"{API}/mcp(/[\w./-]*)?")
UPLOAD_ROUTES = (("POST", rf"{API}/upload"), ("GET", rf"{API}/upload_progress"))

_SENTENCES = {
    400: "The request is not one that the app understands.",
    403: "The request came from another site, or asks for what is not served.",
    404: "There is nothing at this address.",
    405: "This address takes no such request.",
    413: "The request is larger than the app reads.",
    422: "The request lacks something, or something in it is of the wrong kind.",
    500: "The app made a mistake; its terminal says more. Try again.",
    503: "The app is busy. Try again in a moment.",
}
_OWN_WORDS = {401, 503}
# An event that failed before any code of ours was asked says nothing; a person gets at least a sentence.
_SILENT = re.compile(rb'("output":|event: error\ndata: )\{"error": ?null\}')
_TOLD = rb"\1" + json.dumps({"error": _SENTENCES[422]}).encode()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one gate lets through. `origins` are hosts besides the request's own that the page may be shown at."""

    frame_ancestors: tuple[str, ...] = ()
    origins: Collection[str] = ()
    root_path: str = ""
    uploads: bool = False
    mcp: bool = False
    largest_body: int = LARGEST_BODY
    most_at_once: int = MOST_AT_ONCE

    def routes(self) -> list[tuple[frozenset[str], re.Pattern[str]]]:
        """Methods and paths that exist."""
        known = [*ROUTES, *(UPLOAD_ROUTES if self.uploads else ()), *([MCP_ROUTE] if self.mcp else ())]
        return [(frozenset(methods.split()), re.compile(path)) for methods, path in known]


class TooLargeError(Exception):
    """The body of a request is larger than the gate lets through."""


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._routes = rules.routes()
        self._headers = headers(rules.frame_ancestors)
        self._prefix = urlsplit(rules.root_path).path if "://" in rules.root_path else rules.root_path
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one request; what is no HTTP request passes only if it is the server's own lifespan."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        body = _Body(receive, self._rules.largest_body)
        answer = _Answer(send, body, self._headers, self._rules.frame_ancestors, self._path(scope))
        status = self._refusal(scope)
        if status:
            await answer.refuse(status)
            return
        counted = scope["method"] == "POST"
        self._busy += counted
        try:
            await self._app(scope, body.receive, answer.send)
        except Exception as error:
            if answer.begun:
                raise
            if not isinstance(error, TooLargeError):
                _log.exception("a request failed")
            await answer.refuse(500)
        finally:
            self._busy -= counted

    def _refusal(self, scope: Scope) -> int:
        """The status of the refusal; 0 lets the request through."""
        found = Headers(scope=scope)
        path, method = self._path(scope), scope["method"]
        methods = [methods for methods, pattern in self._routes if pattern.fullmatch(path)]
        if not methods:
            return 404
        if not any(method in allowed for allowed in methods):
            return 405
        if not self._from_here(found) and not (path == "/" and method in ("GET", "HEAD")):
            return 403
        length = found.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._rules.largest_body:
            return 413
        return 503 if method == "POST" and self._busy >= self._rules.most_at_once else 0

    def _path(self, scope: Scope) -> str:
        path: str = scope["path"]
        inside = self._prefix and path.startswith(self._prefix + "/")
        return path.removeprefix(self._prefix) if inside else path

    def _from_here(self, found: Headers) -> bool:
        """Whether no other site's page sent the request: programs say nothing of an origin, browsers cannot lie."""
        if found.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return False
        origin = found.get("origin")
        if origin is None:
            return True
        host = urlsplit(origin).netloc
        return bool(host) and host in {found.get("host", ""), *self._rules.origins}


class _Body:
    """The body of a request, up to a size."""

    def __init__(self, receive: Receive, most: int) -> None:
        self.too_large = False
        self._receive = receive
        self._left = most

    async def receive(self) -> Message:
        """The next part.

        Raises:
            TooLargeError: the body goes beyond the size.
        """
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.too_large = True
            raise TooLargeError
        return message


class _Answer:
    """What goes back: the same headers on everything, a policy of its own on a page, our words on what failed."""

    def __init__(self, send: Send, body: _Body, common: dict[str, str], ancestors: tuple[str, ...], path: str) -> None:
        self._send = send
        self._read = body
        self._common = common
        self._ancestors = ancestors
        self._path = path
        self._start: Message | None = None
        self._body = b""
        self._status = 0
        self._streams = False

    async def send(self, message: Message) -> None:
        """Pass a message on; a page, and what is replaced, only as a whole."""
        if message["type"] == "http.response.start":
            self._status = message["status"] = 413 if self._read.too_large else message["status"]
            found = MutableHeaders(scope=message)
            for name, value in self._common.items():
                found.setdefault(name, value)
            self._streams = found.get("content-type", "").startswith("text/event-stream")
            if self._is_replaced() or found.get("content-type", "").startswith("text/html"):
                self._start = message
            else:
                await self._send(message)
        elif self._start is None or message["type"] != "http.response.body":
            if self._streams:
                message = {**message, "body": _SILENT.sub(_TOLD, message.get("body", b""))}
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    @property
    def begun(self) -> bool:
        """Whether a part of the answer has gone out."""
        return bool(self._status) and self._start is None

    async def refuse(self, status: int) -> None:
        """Answer with our sentence."""
        status = 413 if self._read.too_large else status
        start: Message = {"type": "http.response.start", "status": status, "headers": []}
        MutableHeaders(scope=start).update(self._common)
        await self._whole(start, _words(status), "application/json")

    async def _finish(self, start: Message) -> None:
        if self._is_replaced():
            await self._whole(start, _words(self._status), "application/json")
            return
        found = MutableHeaders(scope=start)
        found["content-security-policy"] = page_policy(self._body, self._ancestors)
        await self._whole(start, self._body, found["content-type"])

    async def _whole(self, start: Message, body: bytes, kind: str) -> None:
        self._start = None
        self._status = start["status"]
        found = MutableHeaders(scope=start)
        found["content-type"] = kind
        found["content-length"] = str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    def _is_replaced(self) -> bool:
        """What Gradio says of a failed login and of its queue is for people already."""
        if self._status < 400 or self._status in _OWN_WORDS:
            return False
        return not (self._path.startswith("/login") and self._status == 400)


def _words(status: int) -> bytes:
    sentence = _SENTENCES.get(status) or HTTPStatus(status).phrase
    said: dict[str, Any] = {"detail": sentence, "error": sentence}
    return json.dumps(said).encode()
