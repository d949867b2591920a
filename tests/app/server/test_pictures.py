from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.compare.event_stream import EventStreams
from app.server import pictures

PACING: Any = SimpleNamespace(passes_per_second=0.0, stopped=False)


@pytest.fixture
def event_streams() -> EventStreams:
    found = EventStreams()
    found.open("run", PACING).put('{"kind":"state"}\n{"text":"\ud800 é"}\n')
    return found


@pytest.fixture
def client(event_streams: EventStreams) -> TestClient:
    return TestClient(Starlette(routes=[pictures.route(event_streams)]))


def test_the_new_lines_go_out_as_text_that_nobody_keeps(client: TestClient) -> None:
    answer = client.get("/pictures/run?after=1")
    assert answer.text == '{"text":"? é"}\n'  # what is no character is shown as one
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers[pictures.AGAIN] == "200"


def test_all_of_them_for_who_has_none(client: TestClient) -> None:
    assert client.get("/pictures/run").text.count("\n") == 2


def test_a_run_that_is_over_or_never_was_has_nothing(client: TestClient) -> None:
    answer = client.get("/pictures/other?after=0")
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("after", ["-1", "1.5", "x", "", "1" * 10, "²", "<b>"])
def test_a_number_that_is_none_is_refused(client: TestClient, after: str) -> None:
    assert client.get("/pictures/run", params={"after": after}).status_code == 422


def test_the_page_is_not_followed_by_asking_for_nothing(client: TestClient, event_streams: EventStreams) -> None:
    client.get("/pictures/run?after=x")
    run = event_streams.find("run")
    assert run is not None
    assert not run.followed
