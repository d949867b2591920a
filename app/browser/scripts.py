"""The scripts that the page fetches: its own, and the drawing library, which comes with the first figure.

Each address names the content, by its hash or its version, so that a browser may keep the file for good.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from analysis import plotly_script
from app.browser import bundle

PAGE_PATH, PLOTLY_PATH = "/static/lens.js", "/static/plotly.min.js"
_FOR_GOOD = "public, max-age=31536000, immutable"


@cache
def page_script() -> str:
    """The address of the page's own script, relative to the page."""
    return f"{PAGE_PATH[1:]}?{hashlib.sha256(_page()).hexdigest()[:16]}"


@cache
def plotly() -> str:
    """The address of the drawing library, relative to the page."""
    return f"{PLOTLY_PATH[1:]}?{plotly_script.version()}"


def routes() -> list[Route]:
    """The routes, which need no login: anybody can have these files."""
    return [route(PAGE_PATH, _page), route(PLOTLY_PATH, _plotly)]


def route(path: str, read: Callable[[], bytes], kept: str = _FOR_GOOD, kind: str = "text/javascript") -> Route:
    """The route of a file that needs no login; compressed for browsers that accept it."""

    @cache
    def packed() -> bytes:
        return gzip.compress(read(), compresslevel=6)

    def answer(request: Request) -> Response:
        unpacks = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"cache-control": kept, "vary": "accept-encoding"}
        if unpacks:
            headers["content-encoding"] = "gzip"
        return Response(packed() if unpacks else read(), media_type=kind, headers=headers)

    return Route(path, answer, methods=["GET", "HEAD"])


def _page() -> bytes:
    return bundle.script().encode()


def _plotly() -> bytes:
    return plotly_script.script().encode()
