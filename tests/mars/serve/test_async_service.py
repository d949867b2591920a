"""Who leaves frees its row, who comes too many is told when to come again, and who runs at the end is served."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from mars.checkpoint import Checkpoint
from mars.serve import async_service
from mars.serve.__main__ import bind, main

ROOT = Path(__file__).parents[3]
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Tom has 3 apples."}], "decoder": "autoregressive"}


@pytest.fixture
def server(serve: Callable[..., Any]) -> Any:
    """A server with two places and room for one more request, whose passes a test lets through."""
    found = serve(places=2, queue=1)
    found.steps.held = True
    return found


@pytest.mark.parametrize("stream", [True, False])
def test_a_leaving_client_frees_its_row(server: Any, stream: bool) -> None:
    body = json.dumps({**CHAT, "max_tokens": 900, "stream": stream}).encode()
    with server.connect() as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        server.steps.let(3)
        server.until(lambda: server.service.running == 1 and server.steps.made == 3)
    server.until(lambda: "mars_requests_left_total 1.0" in server.get("/metrics").text)
    server.steps.let(1)
    server.until(lambda: not server.service.running)
    assert server.get("/health").json() == {"status": "ok", "running": 0, "waiting": 0}
    assert server.steps.made <= 4


def test_a_full_queue_says_when_to_try_again(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[bool] = []
    monkeypatch.setattr(server.service._service, "refuse", lambda: refused.append(True))
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(server.post, json={**CHAT, "max_tokens": 3}) for _ in range(3)]
        server.until(lambda: server.service.running + server.service.waiting == 3)
        full = server.post(json=CHAT)
        assert full.status_code == 429
        assert int(full.headers["retry-after"]) >= 1
        assert full.json()["error"]["code"] == "rate_limit_exceeded"
        assert refused == [True], "the controller hears of it"
        server.steps.go()
        answers = [one.result() for one in asked]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.json()["choices"][0]["message"]["content"] for answer in answers}) == 1


def test_retry_after_follows_how_long_requests_take(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them waited for 100 seconds, and then held the only place for a moment each."""
    now = [0.0]
    monkeypatch.setattr(async_service, "time", SimpleNamespace(monotonic=lambda: now[0]))
    server = serve(places=1, queue=1)
    server.steps.held = True
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(server.post, json={**CHAT, "max_tokens": 2}) for _ in range(2)]
        server.until(lambda: server.service.waiting == 2)
        now[0] = 100.0
        server.steps.go()
        assert [one.result().status_code for one in asked] == [200] * 2
    monkeypatch.setattr(server.service, "_most", 0)
    assert server.post(json=CHAT).headers["retry-after"] == "1"


@pytest.mark.parametrize("stream", [True, False])
def test_a_failed_pass_is_said_and_survived(serve: Callable[..., Any], checkpoint: Checkpoint, stream: bool) -> None:
    engine = Failing(checkpoint.engine)
    server = serve(checkpoint=replace(checkpoint, engine=engine))
    engine.fails = True
    found = server.post(json={**CHAT, "stream": stream, "max_tokens": 3})
    if stream:
        events = found.text.split("\n\n")
        assert json.loads(events[-3].removeprefix("data: "))["error"]["type"] == "server_error"
        assert events[-2] == "data: [DONE]"
    else:
        assert found.status_code == 500
        assert found.json()["error"]["type"] == "server_error"
    assert "secret" not in found.text
    engine.fails = False
    assert server.post(json={**CHAT, "max_tokens": 3}).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_the_end_of_the_grace_is_said(server: Any, stream: bool, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    server.server.config.timeout_graceful_shutdown = 0
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(server.post, json={**CHAT, "stream": stream})
        server.steps.let(3)
        server.until(lambda: server.service.running == 1)
        server.server.should_exit = True
        found = asked.result(30)
        server.steps.go()
    said = found.text.split("\n\n")[-2].removeprefix("data: ") if stream else found.text
    assert json.loads(said)["error"]["message"] == "the server is being stopped: ask again in a moment"
    whole = (503, "1", "close")
    assert stream or (found.status_code, *map(found.headers.get, ("retry-after", "connection"))) == whole
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("stream", [True, False])
def test_without_further_passes_requests_are_refused(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server = serve(places=1, queue=0)
    monkeypatch.setattr(server.service._service, "advance", sys.exit)
    body = {**CHAT, "stream": stream, "max_tokens": 3}
    assert "server_error" in server.post(json=body).text
    server.until(lambda: not server.service.alive)
    refused = server.post(json=body)
    assert refused.status_code == 503
    assert refused.json()["error"]["message"] == "the server makes no more passes: ask again once it has been restarted"
    health = server.get("/health")
    assert (health.status_code, health.json()) == (503, {"status": "failing", "running": 0, "waiting": 0})


class Failing:
    """An engine that can be made to fail."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def clock(self) -> Any:
        if self.fails:
            raise RuntimeError("a secret path")
        return self._engine.clock()


@pytest.fixture
def process() -> Any:
    """The command itself, on the shipped model; its address once it answers."""
    command = [sys.executable, "-m", "mars.serve", "--checkpoint", "assets/checkpoints/mars-b8", "--port", "0"]
    command += ["--threads", "1"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, **pipes) as started:
        found = re.fullmatch(r"mars-b8 is at (http://\S+)\n", started.stdout.readline())
        if found:
            yield started, found[1]
        started.kill()
    assert found


def test_the_command_finishes_what_runs(process: Any) -> None:
    started, url = process
    body = {**CHAT, "max_tokens": 120, "stream": True, "stream_options": {"include_usage": True}}
    with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=60, trust_env=False) as answer:
        events = answer.iter_lines()
        lines = [next(events)]
        started.send_signal(signal.SIGINT)
        lines += events
    assert lines[-2] == "data: [DONE]" or lines[-1] == "data: [DONE]"
    assert any('"completion_tokens"' in line for line in lines)
    assert (started.wait(30), started.stderr.read()) == (0, "")
    with pytest.raises(httpx.TransportError):
        httpx.get(url.replace("/v1", "/health"), trust_env=False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--checkpoint", "no/such/folder/here"], "no/such/folder/here"),
        (["--checkpoint", "x", "--decoder", "fast"], "--decoder must be one of"),
        (["--checkpoint", "x", "--threshold", "2"], "threshold must be between 0 and 1"),
        (["--checkpoint", "x", "--api-keys", "no-such-file"], "does not exist"),
        (["--checkpoint", "x", "--thresholds", "0.5,0.9"], "must descend, got 0.5,0.9"),
        (["--checkpoint", "x", "--thresholds", "1.5"], "must be between 0 and 1"),
        (["--checkpoint", "x", "--thresholds", "0.9", "--decoder", "self_speculative"], "self_speculative has not"),
        (["--checkpoint", "assets/checkpoints/ar-sft", "--decoder", "sliding_window"], "with this model"),
        (["--checkpoint", "assets/checkpoints/ar-sft", "--context", "99999"], "--context must be at most 1024 for ar"),
        (["--checkpoint", "x", "--replicas", "2"], "give its address with --ray"),
    ],
)
def test_bad_input_is_said_in_a_sentence(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*arguments, "--port", "0"]) == 2
    assert says in capsys.readouterr().err


def test_a_taken_port_is_said_before_loading(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with bind("127.0.0.1", 0) as taken:  # by a server that still loads
        assert main(["--checkpoint", "no/such/folder", "--port", str(taken.getsockname()[1])]) == 1
    assert "cannot be used" in capsys.readouterr().err
    monkeypatch.setattr("mars.serve.application.load_source", Mock(side_effect=KeyboardInterrupt))
    assert (main(["--checkpoint", "x", "--port", "0"]), *capsys.readouterr()) == (130, "", "")
