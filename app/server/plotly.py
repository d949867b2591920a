"""The drawing library of the figures, as the package `plotly` ships it: one file, fetched with the first of them."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PATH = "/static/plotly.min.js"
ADDRESS = f"{PATH[1:]}?{version('plotly')}"
"""Relative to the page. It names the version, so that a browser may keep the file for good."""


def route() -> Route:
    """The route, which needs no login: anybody can have this file."""
    return Route(PATH, _answer, methods=["GET", "HEAD"])


def _answer(request: Request) -> Response:
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
    if packed:
        headers["content-encoding"] = "gzip"
    return Response(_packed() if packed else _script(), media_type="text/javascript", headers=headers)


def _script() -> bytes:
    return files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()


@cache
def _packed() -> bytes:
    return gzip.compress(_script(), compresslevel=6)
