"""The application that the options of `python -m mars.serve` ask for, on this machine or in a replica of a cluster."""

from __future__ import annotations

import argparse

import torch
from fastapi import FastAPI

from mars import decoders
from mars.checkpoint import Checkpoint
from mars.checkpoint.loading import load_source
from mars.config import check_threshold
from mars.decoding.controller import Controller, controller_of
from mars.serve.async_service import AsyncService, Served
from mars.serve.budget import within
from mars.serve.guard import Keys
from mars.serve.limits import Limits
from mars.serve.metrics import Metrics
from mars.serve.routes import LoadedModels, build


def application(options: argparse.Namespace, keys: Keys | None = None) -> tuple[FastAPI, Limits]:
    """The application of a command line, its checkpoint loaded; with `keys`, it asks for one of them.

    Raises:
        ValueError: one sentence about the option or the file at fault.
    """
    check(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    checkpoint = load_source(options.checkpoint, options)
    limits = Limits(
        body_bytes=options.body_limit,
        body_seconds=options.body_seconds,
        send_seconds=options.send_seconds,
        connections=options.connections,
        new_tokens=options.max_new_tokens_limit,
    )
    metrics = Metrics()
    controller = _controller(options, checkpoint)
    service = AsyncService(
        checkpoint,
        metrics,
        places=options.places,
        queue=options.queue_size,
        context=options.context,
        controller=controller,
    )
    served = Served(
        name=options.name or checkpoint.name,
        checkpoint=checkpoint,
        service=service,
        decoder=options.decoder,
        threshold=options.threshold,
        block_size=options.block_size,
    )
    served.info(None)  # which refuses a decoder that this model cannot have
    metrics.watch(served.name, lambda: service.running, lambda: service.waiting)
    metrics.watch_threshold(served.name, lambda: controller.threshold)
    return build(LoadedModels({served.name: served}), limits, keys, metrics), limits


def check(options: argparse.Namespace) -> None:
    """Raise ValueError, one sentence, for options that can be refused before anything is loaded."""
    check_threshold(options.threshold)
    if options.decoder is not None:
        decoders.check_name(options.decoder, "--decoder")
    knob = options.policy == "knob"
    if knob and options.decoder not in (None, decoders.EXACT):
        raise ValueError(f"--policy knob decodes by {decoders.EXACT} while it can, got --decoder {options.decoder}")
    if knob != (options.accuracy_budget is not None):
        raise ValueError("--policy knob needs --accuracy-budget POINTS, which no other policy takes")


def _controller(options: argparse.Namespace, checkpoint: Checkpoint) -> Controller:
    """The controller of the policy.

    Raises:
        ValueError: the cached runs allow no threshold within the budget.
    """
    if options.policy != "knob":
        return controller_of(checkpoint.engine)
    if not checkpoint.supports_masks:
        raise ValueError(
            f"--policy knob needs a checkpoint that was trained to fill masks, and {checkpoint.name} was not"
        )
    block_size = options.block_size or checkpoint.usual_block_size
    thresholds = within(options.accuracy_budget, options.checkpoint, block_size, options.runs)
    return controller_of(checkpoint.engine, thresholds)
