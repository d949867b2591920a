from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.compare.event_stream import EventStream, EventStreams
from app.compare.runner import Runner
from app.scheduling import AdmissionQueue, LiveRun
from app.server import routes
from app.server.routes import health

TEXT = '{"kind":"state"}\n{"text":"\ud800 é"}\n'
RETRY = f"retry: {routes.RETRY_MILLISECONDS}\n\n"


@pytest.fixture
def event_streams() -> EventStreams:
    return EventStreams()


@pytest.fixture
def run(event_streams: EventStreams) -> EventStream:
    found = event_streams.open("run", "me", LiveRun(AdmissionQueue().join(), None))
    found.put(TEXT)
    return found


@pytest.fixture
def client(event_streams: EventStreams) -> TestClient:
    return TestClient(Starlette(routes=routes.routes(SimpleNamespace(event_streams=event_streams))))


def test_lines_go_out_as_events_that_nobody_keeps(client: TestClient, run: EventStream) -> None:
    run.close()
    answer = client.get("/runs/run/events")
    # what is no character is shown as one
    assert answer.text == f'{RETRY}id: 2\ndata: {{"kind":"state"}}\ndata: {{"text":"? é"}}\n\n'
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("by_header", [True, False])
def test_a_lost_connection_goes_on_behind_its_line(client: TestClient, run: EventStream, by_header: bool) -> None:
    run.close()
    path, headers = ("/runs/run/events", {"last-event-id": "1"}) if by_header else ("/runs/run/events?after=1", {})
    assert client.get(path, headers=headers).text == f'{RETRY}id: 2\ndata: {{"text":"? é"}}\n\n'


def test_whoever_has_all_stays_away(client: TestClient, run: EventStream) -> None:
    run.close()
    answer = client.get("/runs/run/events", headers={"last-event-id": "2"})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_run_that_never_was_has_nothing(client: TestClient, run: EventStream) -> None:
    assert run.identity == "run"
    answer = client.get("/runs/other/events")
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("after", ["-1", "1.5", "x", "1" * 10, "²", "<b>"])
def test_a_number_that_is_none_is_refused(client: TestClient, run: EventStream, after: str) -> None:
    assert client.get("/runs/run/events", params={"after": after}).status_code == 422
    assert client.get("/runs/run/events", headers={"last-event-id": after.encode()}).status_code == 422
    run.close()


def test_a_page_says_that_it_leaves(client: TestClient, run: EventStream) -> None:
    assert client.post("/runs/run/leave").status_code == client.post("/runs/other/leave").status_code == 204
    assert run.live.stopped


MakeRunner = Callable[..., Runner]


def test_health_names_what_is_loaded_and_what_failed(make_runner: MakeRunner, monkeypatch: Any) -> None:
    runner = make_runner(places=3)
    runner.models.get("ar")
    runner.models.wait("broken")
    found = health(runner)
    assert found["status"] == "ok"
    assert found["models"] == {"loaded": ["ar"], "loading": [], "failed": ["broken"]}
    assert found["runs"] == {"active": 0, "waiting": 0, "places": 3}
    for loaded, loading, status in (([], [], "failing"), ([], ["ar"], "starting")):
        monkeypatch.setattr(
            runner.models, "state", lambda at=(loaded, loading): {"loaded": at[0], "loading": at[1], "failed": ["x"]}
        )
        assert health(runner)["status"] == status
