"""A request to the gate, behind which an app would answer anything."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from app.server.gate import API, Gate, Rules, explained

HERE = "http://here.example"


async def broken() -> AsyncIterator[str]:
    yield "<p>"
    raise RuntimeError("/srv/secret")


async def answer(request: Request) -> Response:
    path = request.url.path
    if path == "/manifest.json":
        return StreamingResponse(broken(), media_type="text/html")
    if path.endswith("/theme.css"):
        raise RuntimeError("/srv/secret")
    if path.startswith(f"{API}/call/v2"):
        raise TypeError("Parameter `colour` is not a valid key-word argument")
    if path.endswith("/queue/join"):
        return PlainTextResponse(await request.body())
    if path == "/robots.txt":
        return JSONResponse(dict(request.headers))
    if path in (f"{API}/info", "/login", "/config", f"{API}/queue/status"):
        raise HTTPException(int(request.query_params["status"]), "/srv/secret")
    if path in ("/", "/lens/"):
        return HTMLResponse("<script>1</script><SCRIPT data-x>\ntwo()\n</script><script src='a.js'></script>")
    return PlainTextResponse(path)


class Asked:
    """Requests to one gate, from any address."""

    def __init__(self, rules: Rules | None = None) -> None:
        route = Route("/{path:path}", answer, methods=["GET", "HEAD", "POST", "PUT", "OPTIONS"])
        middleware = [Middleware(Gate, rules=rules or Rules())]
        self.app = Starlette(routes=[route], middleware=middleware, exception_handlers={HTTPException: explained})

    async def send(self, method: str, path: str, address: str = "10.0.0.1", **options: Any) -> httpx.Response:
        """The answer; a POST without content sends an empty object."""
        if method == "POST" and API in path:
            options.setdefault("content", b"{}")
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            return await client.request(method, path, **options)


@pytest.fixture(scope="session")
def ask() -> Callable[..., httpx.Response]:
    """`ask("GET", "/", rules, headers=…)`: the answer, with what `httpx` takes besides."""

    def send(method: str, path: str, rules: Rules | None = None, **options: Any) -> httpx.Response:
        return asyncio.run(Asked(rules).send(method, path, **options))

    return send
