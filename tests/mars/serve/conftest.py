"""Real servers of the shipped checkpoint, each in a thread; `Steps` holds passes back until a test lets them go."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from mars.checkpoint import Checkpoint, load_checkpoint
from mars.decoding.policy import Policy
from mars.serve import RequestLimits
from mars.serve.__main__ import bind
from mars.serve.async_service import AsyncService, Served
from mars.serve.guard import Callers, digest, protocol
from mars.serve.metrics import Metrics
from mars.serve.routes import build

ASSETS = Path(__file__).parents[3] / "assets"
CHECKPOINT = ASSETS / "checkpoints" / "mars-b8"
USUAL = RequestLimits()


class Steps:
    """Lets passes through one by one; held open to begin with."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(0)
        self.held = False
        self.made = 0

    def each(self, advance: Callable[[], Any]) -> Callable[[], Any]:
        def advanced() -> Any:
            if self.held:
                self._free.acquire(timeout=30)
            record = advance()
            self.made += 1
            return record

        return advanced

    def let(self, passes: int) -> None:
        self._free.release(passes)

    def go(self) -> None:
        self.held = False
        self._free.release(1000)


@dataclass(frozen=True)
class Running:
    """A server that a test asks, and its model."""

    checkpoint: Checkpoint
    port: int
    service: AsyncService
    steps: Steps
    server: uvicorn.Server
    client: httpx.Client

    @property
    def name(self) -> str:
        return self.checkpoint.name

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, route: str = "chat/completions", **options: Any) -> httpx.Response:
        return self.client.post(f"/v1/{route}", **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.client.get(path, **options)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def until(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "the condition never came true"
            time.sleep(0.005)


@pytest.fixture(scope="session")
def checkpoint(one_thread: None) -> Checkpoint:
    """The shipped model, trained with masks."""
    return load_checkpoint(CHECKPOINT)


@pytest.fixture(scope="session")
def serve(checkpoint: Checkpoint) -> Iterator[Callable[..., Running]]:
    """`serve(limits=…, keys=…, places=2, queue=1)`: a server of its own, of another `checkpoint` if given."""
    running: list[tuple[Running, threading.Thread]] = []

    def start(
        checkpoint: Checkpoint = checkpoint,
        limits: RequestLimits = USUAL,
        keys: list[str] | None = None,
        callers: dict[str, Any] | None = None,
        policy: Policy | None = None,
        usual: dict[str, Any] | None = None,
        **options: Any,
    ) -> Running:
        metrics, steps, policy = Metrics(), Steps(), policy or Policy(checkpoint.engine)
        service = AsyncService(checkpoint, metrics, policy, **options)
        service._service.advance = steps.each(service._service.advance)  # type: ignore[method-assign]
        served = Served(name=checkpoint.name, checkpoint=checkpoint, service=service, **(usual or {}))
        metrics.watch(served.name, lambda: service.running, lambda: service.waiting, lambda: service.threshold)
        asking = Callers(keys={*map(digest, keys)} if keys else None, **{"hosts": {"x"}, **(callers or {})})
        app = build(served, limits, asking, metrics)
        config = uvicorn.Config(app, http=protocol(limits), ws="none", log_level="error", access_log=False)
        server, listening = uvicorn.Server(config), bind("127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)
        found = Running(checkpoint, port, service, steps, server, client)
        found.until(lambda: server.started)
        running.append((found, thread))
        return found

    yield start
    for found, _ in running:
        found.steps.go()
        found.client.close()
        found.server.should_exit = True
        found.server.force_exit = True
    for _, thread in running:
        thread.join(20)


@pytest.fixture(scope="session")
def served(serve: Callable[..., Running]) -> Running:
    """A server as it is started without options."""
    return serve()
