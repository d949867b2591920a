"""Whoever goes away, in whatever manner, gives back the place: closed tabs, killed connections, calls hung up on."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import httpx
import pytest
from playwright.sync_api import Page

from app.server.gate import MOST_UNREAD

Visit = Callable[..., Page]
SLOW = 3.0
PATIENCE_SECONDS = 30  # the app needs two at most; a busy machine more


@pytest.fixture(scope="module")
def narrow(serve: Callable[..., Any]) -> Any:
    """The page with one place, and so a line of two (tests/app/scripted_pair.py)."""
    return serve("--places", "1")


@pytest.fixture(autouse=True)
def everybody_has_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "narrow" in request.fixturenames:
        wait_for(request.getfixturevalue("narrow"), active=0, waiting=0)


def runs(page: Any) -> dict[str, int]:
    """Asked many times, and so not by `httpx.get`, which reads the certificates of all authorities each time."""
    with urlopen(page.url + "healthz", timeout=60) as answer:
        found: dict[str, int] = json.load(answer)["runs"]
    return found


def wait_for(page: Any, seconds: float = PATIENCE_SECONDS, **expected: int) -> None:
    deadline = time.monotonic() + seconds
    while (found := runs(page)) | expected != found:
        assert time.monotonic() < deadline, f"{expected} did not come, there is {found}"
        time.sleep(0.05)


def slow_run(visit: Visit, page: Any) -> Page:
    """A new session whose run takes long."""
    tab = visit(page.url)
    tab.locator("#pace label", has_text="Slow").click()
    tab.click("#run")
    return tab


@pytest.mark.browser
@pytest.mark.parametrize("closed", [True, False])
def test_a_window_that_is_left_frees_its_run(narrow: Any, visit: Visit, closed: bool) -> None:
    tab = slow_run(visit, narrow)
    tab.wait_for_selector("[data-lane=b] .lens-pass")
    assert runs(narrow)["active"] == 1
    tab.close() if closed else tab.goto(narrow.url + "healthz")
    wait_for(narrow, 15, active=0)  # by itself it would end later


@pytest.mark.browser
def test_a_closed_window_leaves_the_line(narrow: Any, visit: Visit) -> None:
    first = start(narrow, "first")
    second = slow_run(visit, narrow)
    second.wait_for_selector("[data-state=queued]")
    assert second.inner_text(".lens-status") == "Waiting for the device: 1 run is ahead of yours."
    assert runs(narrow) == {"active": 1, "waiting": 1, "places": 1}
    second.close()
    wait_for(narrow, active=1, waiting=0)
    leave(narrow, first)


@pytest.mark.browser
def test_a_full_line_turns_the_next_away(narrow: Any, visit: Visit) -> None:
    started = [start(narrow, session) for session in ("first", "second", "third")]
    wait_for(narrow, active=1, waiting=2)
    late = slow_run(visit, narrow)
    late.wait_for_selector("[data-state=failed]")
    sentence = "The app is busy and its queue is full (2 waiting). Try again in a moment."
    assert late.inner_text(".lens-status").startswith(sentence)
    assert late.locator("#run:enabled").count() == 1
    for run in started:
        leave(narrow, run)


@contextmanager
def connection(page: Any, request: str) -> Iterator[socket.socket]:
    """A raw connection on which this was asked, after the first bytes of the answer; cut off at the end."""
    place = urlsplit(page.url)
    with socket.create_connection((str(place.hostname), place.port or 80), timeout=60) as sock:
        sock.sendall(f"{request} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        assert sock.recv(12) == b"HTTP/1.1 200"
        yield sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, *bytes(7)]))  # resets, says no word


def leave(page: Any, events: str) -> None:
    """Say what a page says that is closed."""
    httpx.post(page.url.rstrip("/") + events.replace("/events", "/leave"), timeout=60).raise_for_status()


def start(page: Any, session: str) -> str:
    """Press Run in this session, slowly; all else is as the page begins. The address of the run's lines."""
    found = httpx.get(page.url + "config", timeout=60).json()
    values = {part["id"]: part["props"].get("value") for part in found["components"]}
    ids = {part["props"].get("elem_id"): part["id"] for part in found["components"]}
    values |= {ids["prompt"]: "How many sheep?", ids["pace"]: SLOW}
    event = next(event for event in found["dependencies"] if [ids["run"], "click"] in event["targets"])
    data = [values[part] for part in event["inputs"]]
    body = {"data": data, "fn_index": event["id"], "session_hash": session}
    answer = httpx.post(page.url + "gradio_api/run/predict", json=body, timeout=60).raise_for_status()
    return f"/runs/{json.loads(answer.json()['data'][0])['id']}/events"


@pytest.mark.browser
def test_a_cut_connection_ends_no_run(narrow: Any) -> None:
    events = start(narrow, "cut")
    for _ in range(3):
        with connection(narrow, f"GET {events}"):
            wait_for(narrow, active=1)
    time.sleep(1)
    assert runs(narrow)["active"] == 1
    with connection(narrow, f"GET {events}?after=2") as again, again.makefile("rb") as answer:
        assert any(line.startswith(b"id: ") for line in answer)
    leave(narrow, events)


@pytest.mark.browser
def test_a_program_that_hangs_up_leaves_the_line(narrow: Any) -> None:
    first = start(narrow, "first")
    wait_for(narrow, active=1)
    called = httpx.post(narrow.url + "gradio_api/call/v2/generate", json={"prompt": "How many?"}, timeout=60)
    event = json.loads(called.text)["event_id"]
    with connection(narrow, f"GET /gradio_api/call/v2/generate/{event}"):
        wait_for(narrow, active=1, waiting=1)
    wait_for(narrow, active=1, waiting=0)
    leave(narrow, first)


@pytest.mark.browser
def test_a_page_holds_no_connection_when_idle(narrow: Any, visit: Visit) -> None:
    """A browser opens six to a host: with one for each of seven tabs, the last would never load. A run has one."""
    open_requests: list[str] = []
    tab = visit(narrow.url)
    tab.on("request", lambda request: open_requests.append(request.url))
    for ending in ("requestfinished", "requestfailed"):
        tab.on(ending, lambda request: request.url in open_requests and open_requests.remove(request.url))
    tab.reload()
    tab.wait_for_selector("[data-state=idle]", state="attached")
    tab.wait_for_load_state("networkidle")
    assert open_requests == []
    config = httpx.get(narrow.url + "config", timeout=60).json()
    assert not config["connect_heartbeat"]
    tab.locator("#pace label", has_text="Slow").click()
    tab.click("#run")
    tab.wait_for_selector("[data-lane=b] .lens-pass")
    assert sum("/runs/" in url for url in open_requests) == 1
    tab.click("#stop")
    wait_for(narrow, active=0)


def flood(page: Any) -> list[int]:
    """Statuses of 40 questions whose answers nobody reads, each with another made-up address."""
    with httpx.Client(base_url=page.url, timeout=60) as client:
        told = ({"X-Forwarded-For": f"10.0.0.{number}"} for number in range(40))
        posts = (client.post("gradio_api/call/runs", json={"data": [["x"]]}, headers=headers) for headers in told)
        return [answer.status_code for answer in posts]


@pytest.mark.browser
def test_made_up_addresses_count_as_one(narrow: Any) -> None:
    """Last in this file: for two minutes this address has had too many."""
    assert set(flood(narrow)[MOST_UNREAD:]) == {429}
