"""The gate around an app that would answer anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.server.gate import Gate
from app.server.rules import API, MOST_OF_ONE, Rules

Ask = Callable[..., httpx.Response]


def test_nobody_but_a_known_proxy_says_where_the_page_is_shown(ask: Ask) -> None:
    sent = {"X-Forwarded-Host": "lens.example", "X-Forwarded-Proto": "https", "X-Other": "kept"}
    known = ask("GET", "/robots.txt", Rules(origins={"lens.example"}), headers=sent).json()
    assert known["x-forwarded-host"] == "lens.example"
    unknown = ask("GET", "/robots.txt", headers={**sent, "X-Forwarded-Proto": "javascript"}).json()
    assert unknown.keys() & {"x-forwarded-host", "x-forwarded-proto"} == set()
    assert unknown["x-other"] == "kept"


@pytest.mark.parametrize("asked", ["page=x&tab=learn", "tab=learn&%70age=", "tab=learn&page=1&page=2"])
def test_no_address_names_a_page_that_there_is_not(ask: Ask, asked: str) -> None:
    assert ask("GET", f"/robots.txt?{asked}").json()["query"] == "tab=learn"


def test_other_questions_are_passed_on_as_they_are(ask: Ask) -> None:
    assert ask("GET", "/robots.txt?a=%20b&c&pages=1").json()["query"] == "a=%20b&c&pages=1"


def test_an_error_inside_is_logged_and_not_shown(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    found = ask("GET", "/theme.css")
    assert found.status_code == 500
    assert "secret" not in found.text
    assert "/srv/secret" in caplog.text


def test_a_websocket_gets_no_answer() -> None:
    async def connect() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            raise AssertionError("nothing is read")

        async def send(message: Any) -> None:
            sent.append(message)

        async def app(*_: Any) -> None:
            raise AssertionError("the app is not asked")

        await Gate(app, Rules())({"type": "websocket", "path": "/"}, receive, send)
        return sent

    assert asyncio.run(connect()) == []


def _message(body: bytes = b"", more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


class Sender:
    """Requests to one gate whose bodies arrive as slowly as the test likes."""

    def __init__(self, rules: Rules) -> None:
        self.gate = Gate(self._app, rules)
        self.statuses: list[int] = []

    async def post(self, address: str, *parts: bytes, path: str = f"{API}/queue/join") -> int:
        """The status; a body without parts never comes."""
        waiting = [_message(part, more=place + 1 < len(parts)) for place, part in enumerate(parts)]
        sent: list[Any] = []

        async def receive() -> Any:
            if waiting:
                return waiting.pop(0)
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        await self.gate({**scope, "client": (address, 1)}, receive, send)
        return int(sent[0]["status"])

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def test_bodies_that_never_come_take_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.answer.SECONDS", 0.3)

    async def storm() -> tuple[list[int], int, int]:
        sender = Sender(Rules())
        slow = [asyncio.create_task(sender.post("10.0.0.1")) for _ in range(250)]
        await asyncio.sleep(0)
        other = await sender.post("10.0.0.2", b"{}")
        statuses = list(await asyncio.gather(*slow))
        return statuses, other, await sender.post("10.0.0.1", b"{}")

    statuses, other, later = asyncio.run(storm())
    assert other == later == 200
    assert (statuses.count(408), statuses.count(503)) == (MOST_OF_ONE, 250 - MOST_OF_ONE)


def test_requests_that_have_arrived_do_not_count_against_their_address() -> None:
    async def many() -> list[int]:
        sender = Sender(Rules())
        return [await sender.post("10.0.0.1", b"{", b"}") for _ in range(2 * MOST_OF_ONE)]

    assert set(asyncio.run(many())) == {200}


def test_two_ends_of_a_body_close_the_connection(ask: Ask) -> None:
    sent = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    found = ask("POST", f"{API}/queue/join", headers=sent)
    assert found.status_code == 400
    assert found.headers["connection"] == "close"


def test_an_unknown_parameter_of_the_api_is_the_callers_mistake() -> None:
    async def app(*_: Any) -> None:
        raise TypeError("Parameter `colour` is not a valid key-word argument")

    async def call(path: str) -> int:
        sender = Sender(Rules())
        sender.gate = Gate(app, Rules())
        return await sender.post("10.0.0.1", b"{}", path=path)

    assert asyncio.run(call(f"{API}/call/v2/generate")) == 422
    assert asyncio.run(call(f"{API}/queue/join")) == 500


@pytest.mark.parametrize(("cookie", "status"), [(None, 401), ("wrong", 401), ("known", 200)])
@pytest.mark.parametrize("path", [f"{API}/cancel", f"{API}/reset", f"{API}/reset/"])
def test_with_accounts_only_who_has_logged_in_ends_runs(path: str, cookie: str | None, status: int) -> None:
    async def answer(request: Request) -> Response:
        return Response(str(await request.json()))

    app = Starlette(
        routes=[Route("/{path:path}", answer, methods=["POST"])], middleware=[Middleware(Gate, rules=Rules(login=True))]
    )
    app.cookie_id, app.tokens = "c", {"known": "eva"}  # type: ignore[attr-defined]  # as Gradio's app has them

    async def asked() -> httpx.Response:
        cookies = {"access-token-c": cookie} if cookie else {}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here.example", cookies=cookies) as client:
            return await client.post(path, content=b"{}")

    found = asyncio.run(asked())
    assert found.status_code == status
    assert status == 200 or found.json()["detail"] == "Log in first."
