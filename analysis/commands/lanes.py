"""The options that spec-bench and ifeval share, and the lanes that these name."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from analysis.benchmarks.benchmark import BenchmarkSetup
from analysis.benchmarks.lanes import BenchmarkLane, described, lanes_of, parse_decoders
from analysis.benchmarks.questions import fingerprint
from analysis.commands import add_json_option
from analysis.decoding.decoder_specs import BASELINE, DecoderSpec, parse_threshold
from mars.checkpoint.checkpoint import load_source
from mars.config import DecodingSettings
from mars.options import SOURCES, add_base_options, add_device_options, add_invariant_option


def add_lane_options(parser: argparse.ArgumentParser, *, decoders: str, max_new_tokens: int, runs: str) -> None:
    """Add the options for the models, the decoders and the store of the `runs`."""
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help=f"{SOURCES}, or an adapter")
    add_base_options(parser)
    add_invariant_option(parser)
    add("--baseline", metavar="SOURCE", help=f"the checkpoint of {BASELINE} (default: that of --checkpoint)")
    add(
        "--decoders",
        "--decoder",
        default=decoders,
        metavar="A,B",
        help="such as autoregressive, self_speculative/auto, sliding_window@0.95, jacobi/k4, separated by commas "
        f"(default: {decoders})",
    )
    add("--threshold", default="0.95", metavar="T", help="for decoders that name none (default: 0.95)")
    add(
        "--max-new-tokens",
        type=int,
        default=max_new_tokens,
        metavar="N",
        help=f"the most tokens of an answer (default: {max_new_tokens})",
    )
    add("--threads", type=int, metavar="N", help="torch threads (default: torch's own choice)")
    add_device_options(parser)
    add("--runs", type=Path, default=Path(runs), metavar="DIR", help=f"run store (default: {runs})")
    add_json_option(parser)


def load_lanes(options: argparse.Namespace, *, with_baseline: bool) -> list[BenchmarkLane]:
    """The lanes in the order given, the autoregressive one first where there is one; `with_baseline` adds it.

    Raises:
        ValueError: one sentence about the option or file at fault.
    """
    specs = parse_decoders(options.decoders, parse_threshold(options.threshold))
    specs.sort(key=lambda spec: spec.decoder != BASELINE)
    if with_baseline and specs[0].decoder != BASELINE:
        specs.insert(0, DecoderSpec(decoder=BASELINE, label=BASELINE))
    DecodingSettings(max_new_tokens=options.max_new_tokens)
    if options.threads is not None:
        if options.threads < 1:
            raise ValueError(f"threads must be >= 1, got {options.threads}")
        torch.set_num_threads(options.threads)
    checkpoint = load_source(options.checkpoint, options)
    baseline = None
    if options.baseline is not None:
        other = load_source(options.baseline, options)
        baseline = other, described(options.baseline, other)
    model = described(options.checkpoint, checkpoint)
    return lanes_of(specs, checkpoint, model, options.max_new_tokens, baseline)


def setup_of(
    options: argparse.Namespace,
    lanes: Sequence[BenchmarkLane],
    questions: Sequence[Any],
    task: str,
    metric: str | None = None,
    checked_by: str | None = None,
) -> BenchmarkSetup:
    """The setup of these questions on this machine, for the entries of the runs."""
    checkpoint = lanes[-1].checkpoint
    return BenchmarkSetup(
        task=task,
        fingerprint=fingerprint(questions),
        limit=options.limit,
        metric=metric,
        checked_by=checked_by,
        dtype=checkpoint.dtype,
        device=checkpoint.engine.device.type,
        threads=torch.get_num_threads(),
    )


def described_benchmark(
    options: argparse.Namespace,
    batch_size: int,
    results: Sequence[dict[str, Any]],
    entries: Iterable[Mapping[str, Any]],
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    """The object that --json writes: the results, the options, the ids of the runs, and the `machine`."""
    return {
        "results": list(results),
        "checkpoint": str(options.checkpoint),
        "baseline": options.baseline,
        "limit": options.limit,
        "batch_size": batch_size,
        "max_new_tokens": options.max_new_tokens,
        "runs": str(options.runs),
        "ids": [entry["id"] for entry in entries],
        **machine,
    }
