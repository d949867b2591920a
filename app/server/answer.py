"""Outgoing answers: common headers, a content-security policy for each page, our sentences for errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

from app.browser import bundle
from app.browser.scripts import page_script
from app.server.body import Body
from app.server.policy import page_policy
from app.server.rules import API, speaks_for_itself

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
        await self._whole(start, words(status), "application/json")

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

    def _replacement(self) -> bytes:
        """Our sentence. If an event was refused, the error that Gradio passes on is our sentence already."""
        if self._path.startswith(f"{API}/run/") and self._status == 500:
            said = json.loads(self._body).get("error")
            said = said and said[:_LONGEST_QUOTE]
            return json.dumps({"detail": said, "error": said}).encode() if said else words(422)
        return words(self._status)


def words(status: int) -> bytes:
    """A sentence for a status, as the page and programs read it."""
    sentence = _SENTENCES.get(status) or HTTPStatus(status).phrase
    said: dict[str, Any] = {"detail": sentence, "error": sentence}
    return json.dumps(said).encode()


def with_prelude(html: bytes) -> bytes:
    """The page with our script and the table of the decoders, as data, in front of Gradio's first module.

    Modules run in the order of the page, so Gradio's components find the functions that they call. A page without a
    module stays as it is.
    """
    ours = f'{bundle.decoder_table()}\n<script type="module" src="{page_script()}"></script>\n'.encode()
    return _FIRST_MODULE.sub(lambda _: ours, html, count=1)
