"""The application that the options of `python -m mars.serve` ask for, on this machine or on a Ray cluster.

There replicas, each with the checkpoint loaded, stand behind the proxy of Ray Serve. Ray chooses where they run, starts
more of them under load, replaces those that die, and updates them one by one. A replica answers its requests alone:
only these share passes and beginnings of prompts.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from fastapi import FastAPI

from mars import decoders
from mars.checkpoint import Checkpoint
from mars.checkpoint.checkpoint import load_source
from mars.cluster import absolute, connect, gpus_for
from mars.config import DecodingSettings, check_threshold
from mars.decoding.policy import Policy
from mars.garbage import gc_frozen
from mars.serve import RequestLimits
from mars.serve.async_service import AsyncService, Served
from mars.serve.guard import Callers
from mars.serve.metrics import Metrics
from mars.serve.routes import build

NAME = "mars"
STEADY_SECONDS = 600.0
"""Seconds that a replica that is to go has to finish its answers, unless --grace says otherwise."""


def application(options: argparse.Namespace, keys: frozenset[bytes] | None) -> tuple[FastAPI, RequestLimits]:
    """The application of a command line, its checkpoint loaded; with `keys`, it asks for one of them.

    ValueError, one sentence about the option or the file at fault.
    """
    check(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    checkpoint = load_source(options.checkpoint, options)
    if options.context is not None and options.context > (most := checkpoint.engine.context_length):
        raise ValueError(f"--context must be at most {most} for {checkpoint.name}, got {options.context}")
    limits = RequestLimits(connections=options.connections, new_tokens=options.max_new_tokens_limit)
    metrics = Metrics()
    policy, loose = _policy(options, checkpoint)
    service = AsyncService(
        checkpoint, metrics, policy, places=options.places, queue=options.queue_size, context=options.context
    )
    served = Served(
        name=options.name or checkpoint.name,
        checkpoint=checkpoint,
        service=service,
        decoder=options.decoder,
        threshold=options.threshold,
        block_size=options.block_size,
        loose=loose,
    )
    for free in {False, loose is not None}:
        info = served.info(None, free=free)  # which refuses one that this model lacks
        size, layout = served.usual_block_size, served.layout(info, free=free)
        service.prepare(info.name, DecodingSettings(threshold=options.threshold, block_size=size, layout=layout))
    metrics.watch(served.name, lambda: service.running, lambda: service.waiting, lambda: service.threshold)
    callers = Callers(keys=keys, hosts={options.host.lower(), *options.allowed_host}, origins=options.allow_origin)
    return build(served, limits, callers, metrics), limits


def check(options: argparse.Namespace) -> None:
    """Raise ValueError, one sentence, for options that can be refused before anything is loaded."""
    check_threshold(options.threshold)
    if options.ray is None and max(options.replicas, options.min_replicas) > 1:
        raise ValueError("--replicas and --min-replicas are for a Ray cluster: give its address with --ray")
    if options.decoder is not None:
        decoders.check_name(options.decoder, "--decoder")
    if not options.thresholds:
        return
    for value in options.thresholds:
        check_threshold(value)
    if list(options.thresholds) != sorted(set(options.thresholds), reverse=True):
        raise ValueError(f"--thresholds must descend, got {','.join(f'{value:g}' for value in options.thresholds)}")
    if not decoders.TABLE[options.decoder or decoders.RELAXED].by_threshold:
        raise ValueError(f"--thresholds move the τ of the decoder, which {options.decoder} has not: leave it out")


def _policy(options: argparse.Namespace, checkpoint: Checkpoint) -> tuple[Policy, str | None]:
    """The policy, and the decoder of requests that leave τ to it, unless it is that of others."""
    if not options.thresholds:
        return Policy(checkpoint.engine), None
    if not checkpoint.supports_masks:
        raise ValueError(f"--thresholds need a checkpoint trained to fill masks, which {checkpoint.name} was not")
    return Policy(checkpoint.engine, options.thresholds), options.decoder or decoders.RELAXED


class Replica:
    """The class of the deployment: a process that loads the checkpoint and answers."""

    def __init__(self, options: argparse.Namespace, keys: frozenset[bytes] | None) -> None:
        with gc_frozen():
            self._app, _ = application(options, keys)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The ASGI application that Ray passes requests to."""
        return self._app

    def check_health(self) -> None:
        """Ray calls this now and then, and replaces a replica that raises."""
        if not self._app.state.served.service.alive:
            raise RuntimeError("this replica makes no more passes")


def deploy(options: argparse.Namespace, keys: frozenset[bytes] | None) -> str:
    """Serve on the cluster at `options.ray`, and replace an earlier deployment; returns the address of the proxy.

    A replica of the earlier one is replaced as soon as a new one can answer. ValueError where Ray is not installed,
    there is no such cluster, or the replicas could not start.
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


def _deployment(options: argparse.Namespace, keys: frozenset[bytes] | None) -> Any:
    from ray import serve

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
        graceful_shutdown_timeout_s=STEADY_SECONDS if options.grace is None else float(options.grace),
        health_check_period_s=5.0,
    )
    sources = {name: absolute(getattr(options, name)) for name in ("checkpoint", "base")}
    return deployment.bind(argparse.Namespace(**{**vars(options), **sources}), keys)
