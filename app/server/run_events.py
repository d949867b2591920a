"""`/runs/RUN/events`: the lines of a live run as server-sent events, from any line on.

The data of an event are the lines that came at once; its id is the number of all lines up to and including these. A
browser that lost its connection sends the last id and gets the lines after it; `?after=N` does the same.
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
    """The route. It needs no login: only the page that started a live run knows the identity of the run."""

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
    """These lines as one event; `number` is that of the last line."""
    data = "".join(f"data: {line}\n" for line in text.removesuffix("\n").split("\n"))
    return f"id: {number}\n{data}\n"
