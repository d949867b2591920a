"""`python -m analysis evaluate`: held-out accuracy, tokens per forward and speed of one checkpoint and decoder."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from tqdm import tqdm

from analysis.commands import add_json_option, print_json
from analysis.commands.shared import described_run
from analysis.evaluations.evaluate import Plan, evaluate, to_dict, to_table
from mars import decoders
from mars.checkpoint.checkpoint import load
from mars.options import add_decoding_options, decoding_settings
from mars.tasks import TASKS

HELP = "held-out accuracy, tokens per forward and speed of one checkpoint and decoder"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_decoding_options(parser)
    add = parser.add_argument
    add("--tasks", default="all", metavar="all|a,b", help=f"families, separated by commas: {', '.join(TASKS)}")
    add("--problems", type=int, required=True, metavar="N", help="held-out problems of each family")
    add("--seed", type=int, required=True, metavar="S", help="another seed takes other problems")
    add("--batch-size", type=int, default=16, metavar="B", help="problems in one forward pass (default: 16)")
    add_json_option(parser)


def run(options: argparse.Namespace) -> None:
    """Evaluate and print the table."""
    plan = Plan(
        problems=options.problems,
        seed=options.seed,
        tasks=tuple(TASKS) if options.tasks == "all" else tuple(name.strip() for name in options.tasks.split(",")),
        batch_size=options.batch_size,
    )
    decoders.check_name(options.decoder)
    decoding_settings(options, None)
    checkpoint = load(options)
    settings = decoding_settings(options, checkpoint.block_size)
    with tqdm(total=plan.problems * len(plan.tasks), unit="problem", file=sys.stderr) as bar:
        evaluation = evaluate(checkpoint, options.decoder, settings, plan, bar.update)
    sys.stdout.write(to_table(evaluation) + "\n")
    print_json(
        options,
        **to_dict(evaluation),
        checkpoint=str(options.checkpoint),
        draft=options.draft,
        decoder=options.decoder,
        settings={**asdict(settings), "threshold": evaluation.threshold},
        seed=plan.seed,
        problems=plan.problems,
        batch_size=plan.batch_size,
        **described_run(checkpoint.dtype, checkpoint.engine.device),
    )
