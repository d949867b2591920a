"""What the gate lets a request say, around an app that would answer anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

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
