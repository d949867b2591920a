"""`python -m analysis card`: measure a checkpoint and write its model card."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from analysis.commands.shared import command_provenance
from analysis.decoding.decoder_specs import parse_threshold
from analysis.evaluations.card import Row, model_card
from analysis.evaluations.evaluate import Evaluation, Plan, evaluate
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.checkpoint.loading import load_source
from mars.config import DTYPES, DecodingSettings
from mars.options import add_base_options

HELP = "measure a checkpoint and write its model card, README.md, into its folder"
_THRESHOLDS = "none,0.99,0.95,0.9,0.8,0.7,0.6,0.5"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add(
        "--checkpoint", required=True, metavar="DIR", help="folder of a checkpoint trained with python -m mars.training"
    )
    add_base_options(parser)
    add("--baseline", metavar="DIR", help="AR checkpoint to measure on the same problems, as the first row")
    add("--thresholds", default=_THRESHOLDS, metavar="T,T", help=f"for a MARS checkpoint (default: {_THRESHOLDS})")
    add("--problems", type=int, default=100, metavar="N", help="held-out problems of each family (default: 100)")
    add("--seed", type=int, required=True, metavar="S", help="another seed takes other problems")
    add("--batch-size", type=int, default=16, metavar="B", help="problems in one forward pass (default: 16)")
    add("--max-new-tokens", type=int, default=192, metavar="N", help="the most tokens to write (default: 192)")
    add("--dtype", default="float32", choices=DTYPES, help="default: float32")


def run(options: argparse.Namespace) -> None:
    """Measure every setting on the same problems, then write the card.

    Raises:
        ValueError: one sentence about the option or file at fault.
    """
    plan = Plan(problems=options.problems, seed=options.seed, batch_size=options.batch_size)
    checkpoint = load_source(options.checkpoint, options)
    if not checkpoint.record:
        raise ValueError(f"{options.checkpoint} has no mars.json; cards are written for checkpoints trained here")
    rows = [_row(checkpoint, threshold, plan, options) for threshold in _thresholds(checkpoint, options.thresholds)]
    baseline = None
    if options.baseline:
        ar = load_source(options.baseline, options)
        baseline = (ar.name, _row(ar, None, plan, options).evaluation)
    measured = {
        **command_provenance(checkpoint.engine.device),
        "dtype": options.dtype,
        "max_new_tokens": options.max_new_tokens,
    }
    card = model_card(checkpoint.name, checkpoint.record, rows, plan, measured, baseline)
    target = Path(options.checkpoint) / "README.md"
    target.write_text(card)
    sys.stdout.write(card)


def _thresholds(checkpoint: Checkpoint, text: str) -> list[float | None]:
    return [parse_threshold(word.strip()) for word in text.split(",")] if checkpoint.supports_masks else [None]


def _row(checkpoint: Checkpoint, threshold: float | None, plan: Plan, options: argparse.Namespace) -> Row:
    decoder = decoders.USUAL if checkpoint.supports_masks else decoders.BASELINE
    settings = DecodingSettings(
        block_size=checkpoint.usual_block_size,
        threshold=threshold,
        max_new_tokens=options.max_new_tokens,
    )
    label = f"{checkpoint.name} τ={'none' if threshold is None else threshold}"
    with tqdm(total=plan.problems * len(plan.tasks), unit="problem", desc=label, file=sys.stderr) as bar:
        evaluation: Evaluation = evaluate(checkpoint, decoder, settings, plan, bar.update)
    return Row(decoder=decoder, evaluation=evaluation)
