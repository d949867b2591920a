"""`/runs/RUN/events`: the lines of a live run as server-sent events, from any line on.

An event has the lines that came at once as its data, and as its id how many lines there are with them. A browser that
lost its connection sends the last id, and gets what it lacks; `?after=N` asks for the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.compare.event_stream import EventStream, EventStreams

PATH = "/runs/{identity}/events"
RETRY_MILLISECONDS = 1000
_LONGEST_NUMBER = 9
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}  # nginx would hold the events back


def route(event_streams: EventStreams) -> Route:
    """The route. It needs no login: who knows the identity of a live run was told it by the page that started it."""

    async def answer(request: Request) -> Response:
        after = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        event_stream = event_streams.find(request.path_params["identity"])
        if not (after.isascii() and after.isdecimal() and len(after) <= _LONGEST_NUMBER):
            return Response(status_code=422)
        if event_stream is None or (event_stream.closed is not None and int(after) >= event_stream.lines):
            return Response(status_code=204)  # over: a browser does not connect again
        return StreamingResponse(_events(event_stream, int(after)), media_type="text/event-stream", headers=_HEADERS)

    return Route(PATH, answer, methods=["GET"])


async def _events(event_stream: EventStream, after: int) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    async for number, text in event_stream.follow(after):
        yield event(number, text).encode(errors="replace") if text else b":\n\n"


def event(number: int, text: str) -> str:
    """These lines, up to the line of this number, as one event."""
    data = "".join(f"data: {line}\n" for line in text.removesuffix("\n").split("\n"))
    return f"id: {number}\n{data}\n"
