"""`/pictures/RUN?after=N`: the lines that a live run has written behind its first N."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.compare.event_stream import EventStreams

PATH = "/pictures"
AGAIN = "x-lens-again"
"""The header that says after how many milliseconds to ask again."""
_LONGEST_NUMBER = 9


def route(event_streams: EventStreams) -> Route:
    """The route. It needs no login: who knows the identity of a live run was told it by the page that started it."""

    async def answer(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        event_stream = event_streams.find(request.path_params["identity"])
        if not (after.isascii() and after.isdecimal() and len(after) <= _LONGEST_NUMBER):
            return Response(status_code=422)
        if event_stream is None:
            return Response(status_code=204)  # over, most likely: no error for a browser to complain of
        found = event_stream.fetch(int(after)).encode(errors="replace")
        headers = {"cache-control": "no-store", AGAIN: str(round(1000 * event_stream.again_seconds))}
        return Response(found, media_type="text/plain", headers=headers)

    return Route(f"{PATH}/{{identity}}", answer, methods=["GET"])
