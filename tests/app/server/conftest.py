"""A request to the gate, behind which an app would answer anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from app.server.gate import Gate
from app.server.rules import API, Rules

HERE = "http://here.example"
SILENT = b'data: {"msg":"process_completed","output":{"error":null},"success":false}\n\n'


async def answer(request: Request) -> Response:
    path = request.url.path
    if path.endswith("/theme.css"):
        raise RuntimeError("/srv/secret")
    if path.endswith("/queue/join"):
        return PlainTextResponse(json.dumps(await request.json()).replace("NaN", "null"))
    if path.endswith("/upload"):
        return JSONResponse({"read": len(await request.body())})
    if path == "/robots.txt":
        return JSONResponse({**request.headers, "query": request.url.query})
    if path == f"{API}/queue/data":
        return StreamingResponse(_events(), media_type="text/event-stream")
    if path == f"{API}/call/generate/1":
        return StreamingResponse(iter([b'event: error\ndata: {"error": null}\n\n']), media_type="text/event-stream")
    if path == f"{API}/run/predict":
        return JSONResponse({"error": request.query_params.get("error")}, status_code=500)
    if path in (f"{API}/info", "/login", "/config", f"{API}/queue/status"):
        status = int(request.query_params["status"])
        return JSONResponse({"detail": "/srv/secret"}, status_code=status)
    if path in ("/", "/lens/"):
        return HTMLResponse("<script>1</script>")
    return PlainTextResponse(path)


async def _events() -> AsyncIterator[bytes]:
    yield SILENT
    yield b'data: {"output":{"error":"a sentence"}}\n\n'
    yield b'data: {"output":{"error":"Value: \\"' + b"x" * 10**6 + b' is not in the list"}}\n\n'
    raise RuntimeError("/srv/secret")


def send(method: str, path: str, rules: Rules | None = None, **options: Any) -> httpx.Response:
    if method == "POST" and API in path and "content" not in options:
        options["content"] = b"{}"

    async def asked() -> httpx.Response:
        route = Route("/{path:path}", answer, methods=["GET", "HEAD", "POST", "PUT", "OPTIONS"])
        app = Starlette(routes=[route], middleware=[Middleware(Gate, rules=rules or Rules())])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            return await client.request(method, path, **options)

    return asyncio.run(asked())


@pytest.fixture(scope="session")
def ask() -> Callable[..., httpx.Response]:
    """`ask("GET", "/", rules, headers=…)`: the answer, with what `httpx` takes besides."""
    return send
