"""The endpoint of mars/serve at the page's address; its passes take turns with those of the page's runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from starlette.routing import BaseRoute, Route

from app.compare.runner import Runner
from app.compare.starting import MOST_ROWS, device_lock
from mars.serve import Limits
from mars.serve.async_service import AsyncService, Served
from mars.serve.guard import Callers, Keys
from mars.serve.metrics import Metrics
from mars.serve.routes import PATHS, build


class Endpoint:
    """Serves the checkpoints called `names`, which must stay loaded; the first answers requests that name none.

    As a catalogue for `mars.serve.routes`, it waits for a checkpoint that is still being loaded.
    """

    def __init__(self, runner: Runner, names: Sequence[str], keys: Keys | None) -> None:
        self.names = tuple(names)
        self._runner = runner
        self._metrics = Metrics()
        self._lock = threading.Lock()
        self._served: dict[str, Served] = {}
        self.limits = Limits(new_tokens=runner.limits.new_tokens)
        app = build(self, self.limits, Callers(keys=keys), self._metrics)
        self.routes: list[BaseRoute] = [Route(path, app) for path in PATHS]

    def get(self, name: str) -> Served:
        """The checkpoint with a service of its own; ModelError if it cannot be loaded."""
        checkpoint = self._runner.models.get(name)
        queue = self._runner.queue
        with self._lock:
            if name not in self._served:
                places = min(queue.places, MOST_ROWS)
                service = AsyncService(
                    checkpoint, self._metrics, places=places, turn=partial(device_lock, checkpoint, queue)
                )
                self._served[name] = Served(name=name, checkpoint=checkpoint, service=service)
                self._metrics.watch(name, lambda: service.running, lambda: service.waiting)
            return self._served[name]

    def close(self) -> None:
        """End the passes."""
        with self._lock:
            for served in self._served.values():
                served.service.close()
