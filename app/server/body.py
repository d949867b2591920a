"""The body of an incoming request: no larger and no slower than allowed, and JSON that the whole app can use."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from starlette.types import Message, Receive

SECONDS = 5.0
SLOWEST = 64 * 2**10
"""A body has SECONDS to arrive, and one more for each SLOWEST bytes that have come."""
_SESSION = re.compile(r"[\w.-]{1,64}", re.ASCII)


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
        """The next part.

        Raises:
            BodyError: the body goes beyond the size, or is too slow.
        """
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

        Raises:
            BodyError: it is no JSON object, too large or too slow, or names an impossible session or event.
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
