"""The body of a request on its way in: no larger than allowed, and JSON that every part of the app can write again."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import Message, Receive


class BodyError(Exception):
    """A body that is not passed on; `status` says why."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Body:
    """Reads a body in the place of the app; the first refusal is kept in `refused`."""

    def __init__(self, receive: Receive, most: int) -> None:
        self.refused = 0
        self._receive = receive
        self._left = most
        self._ready: Message | None = None

    async def receive(self) -> Message:
        """The next part.

        Raises:
            BodyError: the body goes beyond the size.
        """
        if self._ready is not None:
            message, self._ready = self._ready, None
            return message
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._refuse(413)
        return message

    async def check_json(self) -> None:
        """Read it whole: a JSON object, in which lone surrogates become U+FFFD, since nobody could write them again.

        Raises:
            BodyError: it is none, or too large.
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
