"""What exists behind the gate: addresses, methods, sizes, and the sites that belong to the page."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from starlette.datastructures import Headers

LARGEST_BODY = 8 * 2**20  # a saved run, as JSON within JSON
MOST_AT_ONCE = 200
API = "/gradio_api"
_ROUTES = (
    ("GET HEAD", r"/|/config/?|/healthz|/theme\.css|/robots\.txt|/favicon\.ico|/manifest\.json|/logout"),
    ("GET HEAD", r"/(assets|static|svelte)/.+"),
    ("GET", r"/pictures/[0-9a-f]{32}"),
    ("POST", r"/login/?"),
    ("GET", rf"{API}/(user|login_check|token|app_id|info|startup-events)/?"),
    ("GET", rf"{API}/(openapi\.json|theme\.css|queue/data|queue/status|heartbeat/[\w-]{{1,64}})"),
    ("POST", rf"{API}/(queue/join|cancel|reset/?|run/\w{{1,64}}/?)"),
    ("POST", rf"{API}/call/(v2/)?\w{{1,64}}/?"),
    ("GET", rf"{API}/call/(v2/)?\w{{1,64}}/[\w-]{{1,64}}"),
)
_MCP_ROUTE = ("GET POST DELETE", rf"{API}/mcp(/[\w./-]*)?")
_UPLOAD_ROUTES = (("POST", rf"{API}/upload"), ("GET", rf"{API}/upload_progress"))
_JSON = re.compile(rf"{API}/(queue/join|cancel|reset|run/.*|call/.*)")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What one gate lets through. `origins` are hosts besides the request's own that the page may be shown at."""

    frame_ancestors: tuple[str, ...] = ()
    origins: Collection[str] = ()
    root_path: str = ""
    uploads: bool = False
    mcp: bool = False
    largest_body: int = LARGEST_BODY
    most_at_once: int = MOST_AT_ONCE

    @cached_property
    def routes(self) -> list[tuple[frozenset[str], re.Pattern[str]]]:
        """Methods and paths that exist."""
        known = [*_ROUTES, *(_UPLOAD_ROUTES if self.uploads else ()), *([_MCP_ROUTE] if self.mcp else ())]
        return [(frozenset(methods.split()), re.compile(path)) for methods, path in known]

    def inner_path(self, path: str) -> str:
        """The path without the one at which a proxy shows the page."""
        prefix = urlsplit(self.root_path).path
        return path.removeprefix(prefix) if prefix and path.startswith(prefix + "/") else path

    def refusal(self, method: str, path: str, headers: Headers, busy: int) -> int:
        """The status with which to refuse a request, while `busy` others are at work; 0 lets it through."""
        methods = [methods for methods, pattern in self.routes if pattern.fullmatch(path)]
        if not methods:
            return 404
        if not any(method in allowed for allowed in methods):
            return 405
        if not self._from_here(headers) and not (path == "/" and method in ("GET", "HEAD")):
            return 403
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()) or int(length) > self.largest_body:
            return 413
        return 503 if method == "POST" and busy >= self.most_at_once else 0

    def _from_here(self, headers: Headers) -> bool:
        """Whether no other site's page sent the request: programs say nothing of an origin, browsers cannot lie."""
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return False
        origin = headers.get("origin")
        if origin is None:
            return True
        host = urlsplit(origin).netloc
        return bool(host) and host in {headers.get("host", ""), *self.origins}


def takes_json(method: str, path: str) -> bool:
    """Whether the body of such a request is a JSON object."""
    return method == "POST" and _JSON.fullmatch(path) is not None
