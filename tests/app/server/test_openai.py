"""The endpoint under the page's address, behind the same gate, with scripted checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from app.server.gate import LARGEST_BODY, Gate, Rules, sentence
from app.server.openai import Endpoint
from mars.serve.guard import Keys

CHAT = {"model": "mars", "messages": [{"role": "user", "content": "How far is it?"}]}


@pytest.fixture
def ask(make_runner: Callable[..., Any]) -> Any:
    """`ask(keys=…, openai=False)`: a client of the app's server."""
    open_ones: list[Endpoint] = []

    def start(*, keys: Keys | None = None, openai: bool = True) -> TestClient:
        endpoint = Endpoint(make_runner(), ("ar", "mars", "broken"), keys)
        open_ones.append(endpoint)
        gate = Middleware(Gate, rules=Rules(openai=openai))
        return TestClient(Starlette(routes=endpoint.routes, middleware=[gate]), base_url="http://here.example")

    yield start
    for endpoint in open_ones:
        endpoint.close()


def test_the_models_of_the_lanes_answer(ask: Callable[..., TestClient]) -> None:
    client = ask()
    texts = []
    for name in ("ar", "mars"):
        found = client.post("/v1/chat/completions", json={**CHAT, "model": name, "records": True})
        assert found.status_code == 200
        texts.append(found.json()["choices"][0]["message"]["content"])
    assert texts[0].endswith("#### 54")
    assert texts[1].endswith("#### 48")
    streamed = client.post("/v1/chat/completions", json={**CHAT, "stream": True})
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == texts[1]
    assert client.get("/v1/models/mars").json()["id"] == "mars"
    assert "mars_requests_total" in client.get("/metrics").text


def test_its_errors_pass_the_gate_as_they_are(ask: Callable[..., TestClient]) -> None:
    client = ask()
    assert client.post("/v1/chat/completions", json={**CHAT, "n": 2}).json()["error"]["param"] == "n"
    assert client.post("/v1/chat/completions", json={**CHAT, "model": "other"}).status_code == 404
    broken = client.post("/v1/chat/completions", json={**CHAT, "model": "broken"})
    assert broken.status_code == 503
    assert broken.json()["error"]["type"] == "server_error"


def test_the_gate_refuses_in_the_clients_form(ask: Callable[..., TestClient]) -> None:
    client = ask()
    for method, path, headers, status in (
        ("POST", "/v1/chat/completions", {"Origin": "https://elsewhere"}, 403),
        ("POST", "/v1/embeddings", {}, 404),
        ("GET", "/v1/completions", {}, 405),
        ("POST", "/v1/completions", {"Content-Length": str(LARGEST_BODY + 1)}, 413),
    ):
        found = client.request(method, path, headers=headers)
        assert found.status_code == status
        assert found.json()["error"]["message"] == sentence(status)
        assert found.json()["error"]["type"] == ("not_found_error" if status == 404 else "invalid_request_error")


def test_it_asks_for_keys_if_wanted_at_all(ask: Callable[..., TestClient]) -> None:
    keyed = ask(keys=Keys(["a-key-of-some-length"]))
    assert keyed.post("/v1/chat/completions", json=CHAT).status_code == 401
    right = {"Authorization": "Bearer a-key-of-some-length"}
    assert keyed.post("/v1/chat/completions", json=CHAT, headers=right).status_code == 200
    assert ask(openai=False).post("/v1/chat/completions", json=CHAT).status_code == 404


@pytest.mark.browser
def test_the_served_page_has_it_beside_itself(serve: Callable[..., Any]) -> None:
    page = serve("--openai")
    found = httpx.post(f"{page.url}v1/chat/completions", json=CHAT, timeout=60)
    assert found.json()["choices"][0]["message"]["content"].endswith("#### 48")
    with httpx.stream("POST", f"{page.url}v1/chat/completions", json={**CHAT, "stream": True}, timeout=60) as answer:
        assert "data: [DONE]" in "".join(answer.iter_text())
    assert httpx.get(page.url, timeout=60).status_code == 200
