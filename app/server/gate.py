"""The ASGI middleware before Gradio: it refuses addresses that the page does not use, other origins, and large bodies.

Gradio serves more than this app needs: files by path or address, recordings, monitoring. An address that `Rules` does
not name does not exist here. Gradio's error messages may quote the request, so our own sentences replace them.
"""

from __future__ import annotations

import logging
from collections import Counter
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.server.accounts import ADDRESS
from app.server.answer import Answer, Body, BodyError, headers
from app.server.rules import Rules, ends_runs, names_parameters, takes_json

_log = logging.getLogger(__name__)


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._headers = headers(rules.frame_ancestors)
        self._busy = 0
        self._arriving: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one HTTP request. Of other scopes only the server's own `lifespan` is passed on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            path = self._rules.inner_path(scope["path"])
            body = Body(receive, self._rules.largest_body)
            answer = Answer(send, body, self._headers, self._rules.frame_ancestors, path)
            address = str((scope.get("client") or ("",))[0])
            arriving = self._arriving[address]
            status = self._rules.refusal(scope["method"], path, Headers(scope=scope), self._busy, arriving)
            if self._rules.login and ends_runs(scope["method"], path) and not _logged_in(scope):
                status = status or 401
            if status:
                await answer.refuse(status)
            else:
                ADDRESS.set(address)
                await self._pass(scope, path, body, answer, address)

    async def _pass(self, scope: Scope, path: str, body: Body, answer: Answer, address: str) -> None:
        posted = scope["method"] == "POST"
        self._busy += posted
        self._arriving[address] += posted
        body.arrived = lambda: self._arrived(address, posted)
        try:
            if takes_json(scope["method"], path):
                await body.check_json()
            await self._app(self._trusted(scope), body.receive, answer.send)
        except BodyError as error:
            await answer.refuse(error.status)
        except Exception as error:  # noqa: BLE001 - whatever it was, no word of it goes out
            unknown = names_parameters(scope["method"], path) and isinstance(error, KeyError | TypeError | ValueError)
            await (answer.refuse(422) if unknown and not answer.begun else self._break_off(answer, error))
        finally:
            self._busy -= posted
            if not body.whole:
                body.arrived()

    def _arrived(self, address: str, posted: int) -> None:
        self._arriving[address] -= posted
        if self._arriving[address] <= 0:
            del self._arriving[address]

    async def _break_off(self, answer: Answer, error: Exception) -> None:
        if answer.begun and not answer.streams:
            raise error
        _log.exception("a request failed")
        await (answer.end_stream() if answer.begun else answer.refuse(500))

    def _trusted(self, scope: Scope) -> Scope:
        """The request without forged headers about the address of the page.

        The host must be one of `Rules.origins`, the scheme http or https. The parameter `page`, which would name
        another page of Gradio's, is dropped too: there is only one.
        """
        found = MutableHeaders(raw=list(scope["headers"]))
        if found.get("x-forwarded-host") not in self._rules.origins:
            del found["x-forwarded-host"]
        if found.get("x-forwarded-proto") not in ("http", "https"):
            del found["x-forwarded-proto"]
        query = scope["query_string"]
        parameters = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        if any(name == "page" for name, _ in parameters):
            query = urlencode([(name, value) for name, value in parameters if name != "page"]).encode("ascii")
        return {**scope, "headers": found.raw, "query_string": query}


def _logged_in(scope: Scope) -> bool:
    """True if the request has a cookie that Gradio set at a login (as in its `get_current_user`)."""
    app, cookies = scope["app"], Request(scope).cookies
    names = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    return any(cookies.get(name) in app.tokens for name in names)
