"""The addresses of our own beside Gradio's; none needs a login.

`/healthz`, for monitoring: the state of the app and the names of its checkpoints.

`/code.svg?link=LINK`: a QR code of a link, for the room that looks at a projector.

`/runs/RUN/events`: the lines of a live run as server-sent events, from any line on. The data of an event are the lines
that came at once; its id is the number of all lines up to and including these. A browser that lost its connection sends
the last id and gets the lines after it; `?after=N` does the same. Only the page that started a run knows its identity.
"""

from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import segno
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app import site
from app.browser import bundle
from app.compare.event_stream import EventStream
from app.compare.runner import Runner

RETRY_MILLISECONDS = 1000
LONGEST_LINK = 600
"""Characters; a code of more has too many modules to be read across a room."""
_LONGEST_NUMBER = 9
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}  # nginx would hold the events back


def routes(runner: Runner) -> list[Route]:
    async def answer_health(request: Request) -> JSONResponse:
        found = health(runner)
        return JSONResponse(found, status_code=503 if found["status"] == "failing" else 200)

    async def answer_events(request: Request) -> Response:
        after = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        event_stream = runner.event_streams.find(request.path_params["identity"])
        if not (after.isascii() and after.isdecimal() and len(after) <= _LONGEST_NUMBER):
            return Response(status_code=422)
        if event_stream is None or event_stream.is_over(int(after)):
            return Response(status_code=204)  # over: a browser does not connect again
        return StreamingResponse(_events(event_stream, int(after)), media_type="text/event-stream", headers=_HEADERS)

    async def answer_leave(request: Request) -> Response:
        if left := runner.event_streams.find(request.path_params["identity"]):  # the page that followed it was closed
            left.live.stop()
        return Response(status_code=204)

    async def answer_code(request: Request) -> Response:
        link = request.query_params.get("link", "")
        if not 0 < len(link) <= LONGEST_LINK:
            return Response(status_code=422)
        drawn = BytesIO()
        segno.make(link, error="l", micro=False).save(drawn, "svg", light="#fff", xmldecl=False, omitsize=True)
        return Response(drawn.getvalue(), media_type="image/svg+xml")

    first_run = bundle.route(f"/{site.RECORDED}", site.first_run, kept="public, max-age=86400", kind="text/plain")
    return [
        Route("/healthz", answer_health, methods=["GET", "HEAD"]),
        Route("/code.svg", answer_code, methods=["GET", "HEAD"]),
        Route("/runs/{identity}/events", answer_events, methods=["GET"]),
        Route("/runs/{identity}/leave", answer_leave, methods=["POST"]),
        *bundle.routes(),
        first_run,
    ]


def health(runner: Runner) -> dict[str, Any]:
    """`status` is ok; starting while nothing is loaded yet; or failing when every requested checkpoint has failed."""
    models = runner.models.state()
    status = "ok"
    if not models["loaded"] and (models["loading"] or models["failed"]):
        status = "starting" if models["loading"] else "failing"
    return {"status": status, "models": models, "runs": runner.queue.counts()}


async def _events(event_stream: EventStream, after: int) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    async for number, text in event_stream.follow(after):
        yield event(number, text).encode(errors="replace") if text else b":\n\n"


def event(number: int, text: str) -> str:
    """These lines as one event; `number` is that of the last line."""
    data = "".join(f"data: {line}\n" for line in text.removesuffix("\n").split("\n"))
    return f"id: {number}\n{data}\n"
