"""The rules of the gate: addresses, methods, sizes, and the sites that belong to the page."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

LARGEST_BODY = 8 * 2**20  # a saved run, as JSON within JSON
MOST_AT_ONCE = 200
MOST_OF_ONE = 40
"""POST requests at once: of all that are at work, and of one address those that have not arrived yet."""
API = "/gradio_api"
_ROUTES = (
    ("GET HEAD", r"/|/config/?|/healthz|/theme\.css|/robots\.txt|/favicon\.ico|/manifest\.json|/logout"),
    ("GET HEAD", r"/(assets|static|svelte)/[!-~]{1,200}"),
    ("GET", r"/runs/[0-9a-f]{32}/events"),
    ("POST", r"/login/?"),
    ("GET", rf"{API}/(user|login_check|token|app_id|info|startup-events)/?"),
    ("GET", rf"{API}/(openapi\.json|theme\.css|queue/data|queue/status|heartbeat/[\w-]{{1,64}})"),
    ("POST", rf"{API}/(queue/join|cancel|reset/?|run/\w{{1,64}}/?)"),
    ("POST", rf"{API}/call/(v2/)?\w{{1,64}}/?"),
    ("GET", rf"{API}/call/(v2/)?\w{{1,64}}/[\w-]{{1,64}}"),
)
_MCP_ROUTE = ("GET POST DELETE", rf"{API}/mcp(/[\w./-]*)?")
_UPLOAD_ROUTES = (("POST", rf"{API}/upload"), ("GET", rf"{API}/upload_progress"))
_OPENAI_ROUTES = (("GET HEAD", r"/v1/models(/.+)?|/v1/mars|/health|/metrics"), ("POST", r"/v1/(chat/)?completions"))
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?")
_ENDS = re.compile(rf"{API}/(cancel|reset)/?")
_JSON = re.compile(rf"{API}/(queue/join|cancel|reset|run/.*|call/.*)")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of one gate. `origins` are further hosts, beside the request's own, at which the page may be shown.

    `hosts` are the names by which a request may call the server, None for any name; with `any_number` it may use any IP
    address. With `login`, only a logged-in user may end the runs of a session.
    """

    frame_ancestors: tuple[str, ...] = ()
    origins: Collection[str] = ()
    root_path: str = ""
    uploads: bool = False
    mcp: bool = False
    openai: bool = False
    hosts: Collection[str] | None = None
    any_number: bool = False
    login: bool = False
    largest_body: int = LARGEST_BODY
    most_at_once: int = MOST_AT_ONCE

    @cached_property
    def routes(self) -> list[tuple[frozenset[str], re.Pattern[str]]]:
        """Methods and paths that exist."""
        known = [*_ROUTES, *(_UPLOAD_ROUTES if self.uploads else ()), *([_MCP_ROUTE] if self.mcp else ())]
        known += _OPENAI_ROUTES if self.openai else ()
        return [(frozenset(methods.split()), re.compile(path)) for methods, path in known]

    def inner_path(self, path: str) -> str:
        """The path without the prefix at which a proxy shows the page."""
        prefix = urlsplit(self.root_path).path
        return path.removeprefix(prefix) if prefix and path.startswith(prefix + "/") else path

    def refusal(self, method: str, path: str, headers: Headers, busy: int, of_one: int) -> int:
        """The HTTP status of the refusal of a request, 0 if it may pass.

        `busy` POST requests are at work; `of_one` bodies from the same address are still arriving.
        """
        if not self._is_called(headers.get("host", "")):
            return 421
        if "content-length" in headers and "transfer-encoding" in headers:
            return 400  # two ends, and a proxy may have taken the other one
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
        full = busy >= self.most_at_once or of_one >= MOST_OF_ONE
        return 503 if method == "POST" and full else 0

    def _is_called(self, host: str) -> bool:
        """True for a name of this server. Else another site could point its name here and read the page's answers."""
        if self.hosts is None or host in self.origins:
            return True
        name = (urlsplit(f"//{host}").hostname or "") if _HOST.fullmatch(host) else ""
        if name in LOOPBACK or name in self.hosts:
            return True
        try:
            number = ip_address(name)
        except ValueError:
            return name.endswith(".localhost")
        return self.any_number or number.is_loopback

    def _from_here(self, headers: Headers) -> bool:
        """True unless another site's page sent the request: a browser names the origin truly, a program names none."""
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return False
        origin = headers.get("origin")
        if origin is None:
            return True
        host = urlsplit(origin).netloc
        return bool(host) and host in {headers.get("host", ""), *self.origins}


def speaks_for_itself(path: str) -> bool:
    """True if errors of this path already have a form of their own (mars/serve)."""
    return path.startswith("/v1/")


def ends_runs(method: str, path: str) -> bool:
    """True if such a request ends runs; Gradio would let anybody do that."""
    return method == "POST" and _ENDS.fullmatch(path) is not None


def names_parameters(method: str, path: str) -> bool:
    """True if such a request names an endpoint with its parameters; it only puts the call into the queue."""
    return method == "POST" and path.startswith(f"{API}/call/")


def takes_json(method: str, path: str) -> bool:
    """Whether the body of such a request is a JSON object."""
    return method == "POST" and _JSON.fullmatch(path) is not None
