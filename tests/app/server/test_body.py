"""What the gate lets a request say, around an app that would answer anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from starlette.types import Message

from app.server.answer import Body, BodyError
from app.server.rules import API, Rules

Ask = Callable[..., httpx.Response]


async def _pieces() -> AsyncIterator[bytes]:
    yield b'{"a": "'
    for _ in range(6):
        yield b"x" * 20
    yield b'"}'


@pytest.mark.parametrize("content", [b'{"a": "' + b"x" * 100 + b'"}', "pieces"])
@pytest.mark.parametrize("path", [f"{API}/queue/join", f"{API}/upload"])
def test_a_body_that_is_too_large_is_refused(ask: Ask, content: Any, path: str) -> None:
    body = _pieces() if content == "pieces" else content
    assert ask("POST", path, Rules(largest_body=100, uploads=True), content=body).status_code == 413


def test_a_body_of_the_largest_size_passes(ask: Ask) -> None:
    assert ask("POST", f"{API}/queue/join", Rules(largest_body=100), content=b'{"a":"' + b"x" * 92 + b'"}').json()


def test_a_body_in_pieces_arrives_whole(ask: Ask) -> None:
    assert ask("POST", f"{API}/queue/join", content=_pieces()).json() == {"a": "x" * 120}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff{}", b'{"a":' + b"[" * 10**5, b'{"a": 1} x', b"7" * 10**4]
)
def test_a_body_that_is_no_object_is_refused(ask: Ask, content: bytes) -> None:
    assert ask("POST", f"{API}/queue/join", content=content).status_code == 400


def test_lone_surrogates_are_replaced_and_pairs_are_kept(ask: Ask) -> None:
    sent = b'{"a\\uDC00": ["\\ud83d\\ude00", {"b": "x\\ud800"}], "c": NaN}'
    found = ask("POST", f"{API}/queue/join", content=sent)
    assert found.json() == {"a\ufffd": ["😀", {"b": "x\ufffd"}], "c": None}


@pytest.mark.parametrize("session", ["", "x" * 65, "x" * 7_000_000, "../..", "<b>", "ü", "\x00"])
def test_the_name_of_a_session_is_short_and_plain(ask: Ask, session: str) -> None:
    content = json.dumps({"session_hash": session}).encode()
    assert ask("POST", f"{API}/queue/join", content=content).status_code == 400


@pytest.mark.parametrize("session", ["0a1b2c3d4e", "x" * 64, "5f0c-11.b_a", None])
def test_the_names_that_browsers_and_programs_give_pass(ask: Ask, session: str | None) -> None:
    content = json.dumps({"session_hash": session, "fn_index": 0}).encode()
    assert ask("POST", f"{API}/queue/join", content=content).status_code == 200


@pytest.mark.parametrize("path", ["queue/join", "run/predict", "cancel"])
def test_no_event_is_counted_from_the_end(ask: Ask, path: str) -> None:
    assert ask("POST", f"{API}/{path}", content=b'{"fn_index": -1}').status_code == 422


def test_a_large_body_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.answer.SECONDS", 0.05)

    async def read(part: bytes) -> int:
        async def receive() -> Message:
            await asyncio.sleep(0.03)
            return {"type": "http.request", "body": part, "more_body": True}

        body = Body(receive, 2**20)
        try:
            for _ in range(4):
                await body.receive()
        except BodyError as error:
            return error.status
        return 0

    assert asyncio.run(read(b"x")) == 408
    assert asyncio.run(read(b"x" * 2**16)) == 0
