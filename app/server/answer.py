"""The parts of an exchange with a browser: the body that comes in, the answer that goes out.

A body is no larger and no slower than allowed, and JSON that the whole app can use. An answer has common headers, says
what a page may load and who may frame it, and has our sentences for errors.

A browser obeys the content-security policy, so each loosening has its reason here:

- `script-src 'unsafe-eval'`: Gradio compiles `js_on_load` and the `js` of events with `new Function`. Their text comes
  from our files, never from a person.
- `script-src 'sha256-…'`: the few scripts that Gradio writes into the page are allowed by the hash of what was sent, so
  that one which is added later does not run. There is no 'unsafe-inline'.
- `style-src 'unsafe-inline'`: Gradio sets its theme, our style sheet and sizes as inline styles.
- `img-src data: blob:`: the dot of Gradio's radio buttons is a picture inside its style sheet; figures are saved as
  pictures that the page makes itself.

Everything else comes from the page's own address, and `connect-src 'self'` keeps it from sending anything elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Send

from app.browser import bundle
from app.server.rules import API, speaks_for_itself
from mars.serve.guard import ApiError

SECONDS = 5.0
SLOWEST = 64 * 2**10
"""A body has SECONDS to arrive, and one more for each SLOWEST bytes that have come."""
_SESSION = re.compile(r"[\w.-]{1,64}", re.ASCII)
_SENTENCES = {
    400: "The app cannot read this request.",
    401: "Log in first.",
    403: "The request came from another site, or asks for a file that the app does not serve.",
    404: "There is nothing at this address.",
    405: "This address takes no such request.",
    408: "The request took too long to arrive. Try again.",
    413: "The request is larger than the app reads.",
    421: "This app does not answer to that name. Start it with --allowed-host NAME to allow it.",
    422: "A field of the request is missing or has the wrong type.",
    500: "The app made a mistake; its terminal says more. Try again.",
    503: "The app is busy. Try again in a moment.",
}
_CLOSING = {400, 408, 413, 421}  # where the next request begins is not sure
_FOR_PEOPLE = {401, 503}  # what Gradio says of a login that is needed, and of its queue
# An event that failed before any code of ours was asked says nothing; a person gets at least a sentence.
_SILENT = re.compile(rb'("output":|event: error\ndata: )\{"error": ?null\}')
_TOLD = rb"\1" + json.dumps({"error": _SENTENCES[422]}).encode()
_FIRST_MODULE = re.compile(rb'(?=<script type="module")')
# One that Gradio refused may quote a value of any length.
_LONGEST_QUOTE = 400
_LONG = re.compile(rb'("output":\{"error":"(?:[^"\\]|\\.){%d})(?:[^"\\]|\\.)+"' % _LONGEST_QUOTE)
_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_UNUSED = ("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "microphone", "payment", "usb")


class BodyError(Exception):
    """A refused body; `status` is the HTTP status of the answer."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Body:
    """Reads a body for the app: `refused` is the status of a refusal or 0, `whole` is true once all has arrived."""

    def __init__(self, receive: Receive, most: int) -> None:
        self.refused = 0
        self.whole = False
        self.arrived: Callable[[], None] = lambda: None
        self._receive = receive
        self._most = self._left = most
        self._ready: Message | None = None
        self._began: float | None = None

    async def receive(self) -> Message:
        """The next part; BodyError if the body goes beyond the size, or is too slow."""
        if self._ready is not None:
            message, self._ready = self._ready, None
            return message
        message = await (self._receive() if self.whole else self._in_time())
        if not self.whole and not message.get("more_body", False):
            self.whole = True
            self.arrived()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._refuse(413)
        return message

    async def _in_time(self) -> Message:
        now = asyncio.get_running_loop().time()
        self._began = now if self._began is None else self._began
        due = self._began + SECONDS + (self._most - self._left) / SLOWEST
        try:
            return await asyncio.wait_for(self._receive(), max(0.0, due - now))
        except TimeoutError:
            raise self._refuse(408) from None

    async def check_json(self) -> None:
        """Read it whole and check it: a JSON object. Lone surrogates become U+FFFD, since they cannot be encoded.

        Raises BodyError if it is none, too large or too slow, or names an impossible session or event.
        """
        parts = []
        while (message := await self.receive())["type"] == "http.request":
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                break
        raw = b"".join(parts)
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError):
            raise self._refuse(400) from None
        if not isinstance(content, dict):
            raise self._refuse(400)
        session, event = content.get("session_hash"), content.get("fn_index")
        if isinstance(session, str) and not _SESSION.fullmatch(session):
            raise self._refuse(400)  # sessions are kept by their names
        if isinstance(event, int | float) and event < 0:
            raise self._refuse(422)  # a list would count it from its end
        if b"\\ud" in raw.lower():
            raw = json.dumps(_clean(content)).encode()
        self._ready = {"type": "http.request", "body": raw, "more_body": False}

    def _refuse(self, status: int) -> BodyError:
        self.refused = status
        return BodyError(status)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


class Answer:
    """One outgoing answer. Pages and replaced answers are sent only when they are complete."""

    def __init__(
        self, send: Send, body: Body, common: Mapping[str, str], ancestors: tuple[str, ...], path: str
    ) -> None:
        self.streams = False
        self._send = send
        self._read = body
        self._common = common
        self._ancestors = ancestors
        self._path = path
        self._start: Message | None = None
        self._body = b""
        self._status = 0

    @property
    def begun(self) -> bool:
        """Whether a part of the answer has gone out."""
        return bool(self._status) and self._start is None

    async def send(self, message: Message) -> None:
        """Pass a message of the app on."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._start is None or message["type"] != "http.response.body":
            if self.streams:
                body = _SILENT.sub(_TOLD, message.get("body", b""))
                message = {**message, "body": _LONG.sub(rb'\1 ..."', body)}
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def refuse(self, status: int) -> None:
        """Answer with our sentence."""
        status = self._read.refused or status
        start: Message = {"type": "http.response.start", "status": status, "headers": []}
        found = MutableHeaders(scope=start)
        found.update(self._common)
        if status in _CLOSING:
            found["connection"] = "close"
        await self._whole(start, self._words(status), "application/json")

    async def end_stream(self) -> None:
        """End an answer that has begun."""
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, message: Message) -> None:
        self._status = message["status"] = self._read.refused or message["status"]
        found = MutableHeaders(scope=message)
        for name, value in self._common.items():
            found.setdefault(name, value)
        self.streams = found.get("content-type", "").startswith("text/event-stream")
        if self._is_replaced() or found.get("content-type", "").startswith("text/html"):
            self._start = message
        else:
            await self._send(message)

    async def _finish(self, start: Message) -> None:
        if self._is_replaced():
            await self._whole(start, self._replacement(), "application/json")
            return
        found = MutableHeaders(scope=start)
        page = with_prelude(self._body)
        found["content-security-policy"] = page_policy(page, self._ancestors)
        await self._whole(start, page, found["content-type"])

    async def _whole(self, start: Message, body: bytes, kind: str) -> None:
        self._start = None
        self._status = start["status"]
        found = MutableHeaders(scope=start)
        found["content-type"] = kind
        found["content-length"] = str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    def _is_replaced(self) -> bool:
        if self._status < 400 or self._status in _FOR_PEOPLE or speaks_for_itself(self._path):
            return False
        return not (self._path.startswith("/login") and self._status == 400)

    def _words(self, status: int) -> bytes:
        """Our sentence for a status, in the form that the clients of the path read."""
        if speaks_for_itself(self._path):
            return json.dumps(ApiError(status, sentence(status)).body).encode()
        return words(status)

    def _replacement(self) -> bytes:
        """Our sentence. If an event was refused, the error that Gradio passes on is our sentence already."""
        if self._path.startswith(f"{API}/run/") and self._status == 500:
            said = json.loads(self._body).get("error")
            said = said and said[:_LONGEST_QUOTE]
            return json.dumps({"detail": said, "error": said}).encode() if said else words(422)
        return words(self._status)


def words(status: int) -> bytes:
    """A sentence for a status, as the page and programs read it."""
    said: dict[str, Any] = {"detail": sentence(status), "error": sentence(status)}
    return json.dumps(said).encode()


def sentence(status: int) -> str:
    """Our sentence for a status."""
    return _SENTENCES.get(status) or HTTPStatus(status).phrase


def with_prelude(html: bytes) -> bytes:
    """The page with our script and the table of the decoders, as data, in front of Gradio's first module.

    Modules run in the order of the page, so Gradio's components find the functions that they call. A page without a
    module stays as it is.
    """
    ours = f'{bundle.decoder_table()}\n<script type="module" src="{bundle.page_script()}"></script>\n'.encode()
    return _FIRST_MODULE.sub(lambda _: ours, html, count=1)


def headers(frame_ancestors: Iterable[str] = ()) -> dict[str, str]:
    """The headers of every answer; `page_policy` adds to them for pages."""
    found = {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": ", ".join(f"{name}=()" for name in _UNUSED),
        "content-security-policy": f"default-src 'none'; {_framing(frame_ancestors)}",
    }
    return found if list(frame_ancestors) else found | {"x-frame-options": "SAMEORIGIN"}


def page_policy(html: bytes, frame_ancestors: Iterable[str] = ()) -> str:
    """The content-security policy of this very page, which allows the inline scripts that it was sent with."""
    hashes = sorted({_hash(script) for script in _INLINE_SCRIPT.findall(html)})
    return "; ".join(
        [
            "default-src 'none'",
            " ".join(["script-src 'self' 'unsafe-eval'", *hashes]),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "base-uri 'self'",
            "form-action 'self'",
            _framing(frame_ancestors),
        ]
    )


def _framing(ancestors: Iterable[str]) -> str:
    return " ".join(["frame-ancestors 'self'", *ancestors])


def _hash(script: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
