"""`python -m analysis evaluate`: held-out accuracy, tokens per forward and speed of one checkpoint and decoder."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from tqdm import tqdm

from analysis.commands.shared import command_provenance
from analysis.evaluations.evaluate import Evaluation, Plan, evaluate, find_decoder, to_dict, to_table
from mars.checkpoint import Checkpoint
from mars.checkpoint.loading import load
from mars.config import DecodingSettings
from mars.options import add_decoding_options, decoding_settings
from mars.tasks import TASKS

HELP = "held-out accuracy, tokens per forward and speed of one checkpoint and decoder"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_decoding_options(parser)
    add = parser.add_argument
    add("--tasks", default="all", metavar="all|a,b", help=f"families, separated by commas: {', '.join(TASKS)}")
    add("--problems", type=int, required=True, metavar="N", help="held-out problems of each family")
    add("--seed", type=int, required=True, metavar="S", help="another seed takes other problems")
    add("--batch-size", type=int, default=16, metavar="B", help="problems in one forward pass (default: 16)")
    add("--json", action="store_true", help="also print one JSON object, as the last line")


def run(options: argparse.Namespace) -> None:
    """Evaluate and print the table; a progress bar goes to stderr.

    Raises:
        ValueError: one sentence about the option or file at fault.
    """
    plan = Plan(
        problems=options.problems,
        seed=options.seed,
        tasks=tuple(TASKS) if options.tasks == "all" else tuple(name.strip() for name in options.tasks.split(",")),
        batch_size=options.batch_size,
    )
    find_decoder(options.decoder)
    decoding_settings(options, None)
    checkpoint = load(options)
    settings = decoding_settings(options, checkpoint.block_size)
    with tqdm(total=plan.problems * len(plan.tasks), unit="problem", file=sys.stderr) as bar:
        evaluation = evaluate(checkpoint, options.decoder, settings, plan, bar.update)
    sys.stdout.write(to_table(evaluation) + "\n")
    if options.json:
        found = _described(evaluation, options, checkpoint, settings, plan)
        sys.stdout.write(json.dumps(found, allow_nan=False) + "\n")


def _described(
    evaluation: Evaluation, options: argparse.Namespace, checkpoint: Checkpoint, settings: DecodingSettings, plan: Plan
) -> dict[str, object]:
    """The results, then everything needed to reproduce them."""
    return {
        **to_dict(evaluation),
        "checkpoint": str(options.checkpoint),
        "draft": options.draft,
        "decoder": options.decoder,
        "settings": {**asdict(settings), "threshold": evaluation.threshold},
        "seed": plan.seed,
        "problems": plan.problems,
        "batch_size": plan.batch_size,
        "dtype": checkpoint.dtype,
        "device": str(checkpoint.engine.device),
        **command_provenance(checkpoint.engine.device),
    }
