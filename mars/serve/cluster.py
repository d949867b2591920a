"""The same application on a Ray cluster: replicas, each with the checkpoint loaded, behind the proxy of Ray Serve.

Ray chooses where replicas run, starts more of them under load, replaces those that die, and updates them one by one.
A replica answers its requests alone: only these share passes and beginnings of prompts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from mars.cluster import connect, gpus_for
from mars.serve.application import application, check
from mars.serve.guard import Keys

NAME = "mars"
STEADY_SECONDS = 600.0
"""Seconds that a replica that is to go has to finish its answers, unless --grace says otherwise."""


class Replica:
    """The class of the deployment: a process that loads the checkpoint and answers."""

    def __init__(self, options: argparse.Namespace, keys: Keys | None) -> None:
        self._app, _ = application(options, keys)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The ASGI application that Ray passes requests to."""
        return self._app

    def check_health(self) -> None:
        """Ray calls this now and then, and replaces a replica that raises."""
        models = self._app.state.catalogue
        if not all(models.get(name).service.alive for name in models.names):
            raise RuntimeError("this replica makes no more passes")


def deploy(options: argparse.Namespace, keys: Keys | None) -> str:
    """Serve on the cluster at `options.ray`, and replace an earlier deployment; returns the address of the proxy.

    A replica of the earlier one is replaced as soon as a new one can answer.

    Raises:
        ValueError: one sentence: Ray is not installed, there is no such cluster, or the replicas could not start.
    """
    check(options)
    if options.min_replicas > options.replicas:
        raise ValueError(f"--min-replicas must be at most --replicas, got {options.min_replicas} of {options.replicas}")
    connect(options.ray)
    from ray import serve

    serve.start(proxy_location="HeadOnly", http_options={"host": options.host, "port": options.port})
    try:
        serve.run(_deployment(options, keys), name=NAME, route_prefix="/")
    except RuntimeError as error:
        raise ValueError(f"the replicas could not start: {str(error).splitlines()[-1]}") from error
    return f"http://{options.host}:{options.port}"


def _deployment(options: argparse.Namespace, keys: Keys | None) -> Any:
    from ray import serve

    folder = Path(options.checkpoint)
    settled = argparse.Namespace(
        **{**vars(options), "checkpoint": str(folder.resolve())} if folder.exists() else vars(options)
    )
    deployment = serve.deployment(
        serve.ingress()(Replica),
        name=NAME,
        ray_actor_options={"num_cpus": options.threads or 1, "num_gpus": gpus_for(options.device)},
        max_ongoing_requests=options.connections,
        autoscaling_config={
            "min_replicas": options.min_replicas,
            "initial_replicas": options.min_replicas,
            "max_replicas": options.replicas,
            "target_ongoing_requests": options.places,
        },
        graceful_shutdown_timeout_s=float(options.grace or STEADY_SECONDS),
        health_check_period_s=5.0,
    )
    return deployment.bind(settled, keys)
