"""`/healthz`, for monitoring: the state of the app and the names of its checkpoints."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.compare.runner import Runner


def health(runner: Runner) -> dict[str, Any]:
    """`status` is ok; starting while nothing is loaded yet; or failing when every requested checkpoint has failed."""
    models = runner.models.state()
    status = "ok"
    if not models["loaded"] and (models["loading"] or models["failed"]):
        status = "starting" if models["loading"] else "failing"
    return {"status": status, "version": _version(), "models": models, "runs": runner.queue.counts()}


def route(runner: Runner) -> Route:
    """The route, which needs no login."""

    async def answer(request: Request) -> JSONResponse:
        found = health(runner)
        return JSONResponse(found, status_code=503 if found["status"] == "failing" else 200)

    return Route("/healthz", answer, methods=["GET", "HEAD"])


def _version() -> str:
    try:
        return version("mars-lens")
    except PackageNotFoundError:
        return "from source"
