"""`python -m analysis card`: measure a checkpoint and write its model card; of an adapter, from the run store."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from analysis.benchmarks.adapter_card import measured_part, with_measured
from analysis.benchmarks.ifeval import load_checkers, read_prompts
from analysis.benchmarks.questions import read_questions
from analysis.commands.shared import command_provenance
from analysis.decoding.decoder_specs import parse_threshold
from analysis.evaluations.card import Row, model_card
from analysis.evaluations.evaluate import Plan, evaluate
from analysis.recipes import RUNS
from analysis.runs import read_runs
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.checkpoint.checkpoint import load_source, read_record
from mars.checkpoint.sources import weights_digest
from mars.config import DTYPES, DecodingSettings
from mars.options import add_base_options, add_setting

HELP = "measure a checkpoint and write its model card, README.md; of an adapter, the measured part from stored runs"
_THRESHOLDS = "none,0.99,0.95,0.9,0.8,0.7,0.6,0.5"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--checkpoint", required=True, metavar="DIR", help="folder of a checkpoint trained with python -m mars.training"
    )
    add_base_options(parser)
    add("--baseline", metavar="DIR", help="AR checkpoint to measure on the same problems, as the first row")
    add("--thresholds", default=_THRESHOLDS, metavar="T,T", help=f"for a MARS checkpoint (default: {_THRESHOLDS})")
    add("--problems", type=int, default=100, metavar="N", help="held-out problems of each family (default: 100)")
    add("--seed", type=int, metavar="S", help="another seed takes other problems; an adapter needs none")
    add("--batch-size", type=int, default=16, metavar="B", help="problems in one forward pass (default: 16)")
    add_setting(parser, "max_new_tokens")
    add("--dtype", default="float32", choices=DTYPES, help="default: float32")
    add("--runs", type=Path, default=Path(RUNS), metavar="DIR", help=f"an adapter's run store (default: {RUNS})")


def run(options: argparse.Namespace) -> None:
    """Measure every setting on the same problems, then write the card.

    Of an adapter, write the measured part of the card from its record and the run store; nothing is decoded.
    """
    if read_record(Path(options.checkpoint)).get("stage") == "adapter":
        _write_measured(Path(options.checkpoint), options.runs)
        return
    if options.seed is None:
        raise ValueError("--seed is needed: the problems depend on it")
    plan = Plan(problems=options.problems, seed=options.seed, batch_size=options.batch_size)
    checkpoint = load_source(options.checkpoint, options)
    if not checkpoint.record:
        raise ValueError(f"{options.checkpoint} has no mars.json; cards are written for checkpoints trained here")
    words = options.thresholds.split(",") if checkpoint.supports_masks else ["none"]
    rows = [_row(checkpoint, parse_threshold(word.strip()), plan, options) for word in words]
    if options.baseline:
        ar = load_source(options.baseline, options)
        rows.insert(0, (f"autoregressive on {ar.name}", _row(ar, None, plan, options)[1]))
    measured = {
        **command_provenance(checkpoint.engine.device),
        "dtype": options.dtype,
        "max_new_tokens": options.max_new_tokens,
    }
    card = model_card(checkpoint.name, checkpoint.record, rows, plan, measured)
    target = Path(options.checkpoint) / "README.md"
    target.write_text(card)
    sys.stdout.write(card)


def _write_measured(folder: Path, runs: Path) -> None:
    """The measured part of an adapter's card."""
    card = folder / "README.md"
    before = card.read_text(encoding="utf-8") if card.is_file() else f"# {folder.resolve().name}\n"
    part = measured_part(
        read_record(folder),
        read_runs(runs),
        weights_digest(sorted(folder.glob("*.safetensors"))),
        read_questions(),
        read_prompts(),
        lambda: load_checkers().followed,
    )
    card.write_text(with_measured(before, part), encoding="utf-8")
    sys.stdout.write(f"{part}\n")


def _row(checkpoint: Checkpoint, threshold: float | None, plan: Plan, options: argparse.Namespace) -> Row:
    decoder = decoders.USUAL if checkpoint.supports_masks else decoders.BASELINE
    settings = DecodingSettings(
        block_size=checkpoint.usual_block_size,
        threshold=threshold,
        max_new_tokens=options.max_new_tokens,
    )
    label = f"{checkpoint.name} τ={'none' if threshold is None else threshold}"
    with tqdm(total=plan.problems * len(plan.tasks), unit="problem", desc=label, file=sys.stderr) as bar:
        return decoder, evaluate(checkpoint, decoder, settings, plan, bar.update)
