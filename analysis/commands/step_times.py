"""The part of `python -m analysis bench` that times passes of a shape (--shape) and predicts from them (--replay)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from tqdm import tqdm

from analysis.benches.bandwidth import Traffic
from analysis.benches.step_times import (
    SHAPES,
    Replay,
    Step,
    StepPlan,
    random_model,
    read_replay,
    read_shape,
    step_times,
)
from analysis.commands import print_json
from analysis.commands.shared import described_run, machine, parse_sizes
from analysis.text_table import aligned
from mars.checkpoint.checkpoint import choose_device, choose_dtype
from mars.checkpoint.weights import held_as
from mars.config import DEFAULT_BLOCK_SIZE
from mars.engine import ModelEngine


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --shape and the options that go with it."""
    group = parser.add_argument_group("passes of a shape, with random weights, instead of decoders")
    add = group.add_argument
    add("--shape", metavar="NAME", help=f"{', '.join(SHAPES)}, or the path of a config.json")
    add(
        "--block-size", type=int, default=DEFAULT_BLOCK_SIZE, metavar="B", help="query lengths 1, 2B-1, B² (default: 8)"
    )
    add("--context", type=int, default=512, metavar="N", help="cached positions of each row (default: 512)")
    add("--replay", type=Path, metavar="FILE", help="predict tok/s from a run that mars.generate --records wrote")


def run(options: argparse.Namespace) -> None:
    """Measure the passes of the shape and print the table."""
    if not options.shape:
        raise ValueError("--replay needs --shape: it predicts the speed of a shape")
    if options.checkpoint or options.ar or options.draft or options.decoders:
        raise ValueError("--shape measures random weights: leave out --checkpoint, --ar, --draft and --decoders")
    replay = read_replay(options.replay) if options.replay else None
    plan = StepPlan.of(options.block_size, parse_sizes(options.batch_sizes), options.context, options.repeats, replay)
    config = read_shape(options.shape)
    device = choose_device(options.device)
    dtype = choose_dtype(options.dtype, device, config)
    model, quantised = random_model(config, held_as(dtype), device), dtype == torch.int8
    traffic = Traffic.of(model, quantised=quantised)  # before the engine lays the weights out anew
    engine = ModelEngine(model, stop_token_ids=frozenset(), quantised=quantised)
    with tqdm(
        total=len(plan.batch_sizes) * len(plan.queries) * (plan.repeats + 1), unit="round", file=sys.stderr
    ) as bar:
        steps = step_times(engine, traffic, plan, bar.update)
    name = str(dtype).removeprefix("torch.")
    sys.stdout.write(f"{aligned(_lines(steps, replay))}\n\n{options.shape}, random weights, {machine(name, device)}; ")
    sys.stdout.write(f"{plan.context} cached positions a row, {plan.repeats} rounds.\n")
    print_json(
        options,
        shape=options.shape,
        steps=[{**asdict(step), **_predicted(step, steps, replay)} for step in steps],
        plan=asdict(plan),
        replay=None if replay is None else {**asdict(replay), "file": str(options.replay)},
        traffic=asdict(traffic),
        **described_run(name, device),
    )


def _predicted(step: Step, steps: Sequence[Step], replay: Replay | None) -> dict[str, float]:
    """Tokens per second of all rows if the recorded acceptance held, and their ratio to one-token mode.

    One-token mode gains one token a row and pass; query lengths other than that of the record have no prediction.
    """
    gained = 1.0 if step.queries == 1 else replay.tokens_per_forward if replay and step.queries == replay.queries else 0
    if not gained:
        return {}
    single = next(other for other in steps if other.queries == 1 and other.batch_size == step.batch_size)
    return {
        "predicted_tokens_per_second": step.batch_size * gained / step.seconds.median,
        "predicted_speedup": gained * single.seconds.median / step.seconds.median,
    }


def _lines(steps: Sequence[Step], replay: Replay | None) -> list[tuple[str, ...]]:
    heading = ("batch size", "queries/row", "ms/pass", "95 % interval", "bandwidth", "predicted tok/s", "× one token")
    lines: list[tuple[str, ...]] = [heading]
    for step in steps:
        low, high = step.seconds.low * 1000, step.seconds.high * 1000
        predicted = _predicted(step, steps, replay)
        lines.append(
            (
                str(step.batch_size),
                str(step.queries),
                f"{step.seconds.median * 1000:.3f}",
                f"{low:.3f} to {high:.3f}",
                "–" if step.bandwidth_share is None else f"{step.bandwidth_share:.0%}",
                f"{predicted['predicted_tokens_per_second']:.0f}" if predicted else "–",
                f"{predicted['predicted_speedup']:.2f}" if predicted else "–",
            )
        )
    return lines
