"""The gate around an app that would answer anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from app.server.gate import Gate
from app.server.rules import Rules

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
