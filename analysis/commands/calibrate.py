"""`python -m analysis calibrate`: fit the score `calibrated`, and keep it in the record of the checkpoint."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from analysis.benchmarks.questions import Families
from analysis.commands.shared import command_provenance, machine
from analysis.decoding.answers import answers
from analysis.stats.calibration import Fit, expected_error, fit
from analysis.text_table import aligned
from mars.checkpoint import Checkpoint
from mars.checkpoint.calibration import write_record
from mars.checkpoint.checkpoint import load_source, read_record
from mars.checkpoint.sources import RECORD_FILE
from mars.config import DecodingSettings
from mars.decoders import EXACT
from mars.decoding.base import trained_mask
from mars.options import add_base_options, add_device_options, add_setting
from mars.training.distill import requests
from mars.training.settings import DistillSettings

HELP = "fit the score `calibrated` on held-out prompts, and keep it in a checkpoint's mars.json"
SEED = 50
COLUMNS = ("prompt", "depth", "score", "agrees")


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint", type=Path, required=True, metavar="DIR", help="folder of a MARS checkpoint or an adapter")
    add_base_options(parser)
    add("--problems", type=int, default=20, metavar="N", help="held-out problems of each family (default: 20)")
    about = "JSONL or plain text: further prompts (FILE:FIELD names the text's field)"
    add("--prompts", nargs="*", default=(), metavar="FILE", help=about)
    add("--seed", type=int, default=SEED, metavar="S", help=f"of the problems and the folds (default: {SEED})")
    add("--batch-size", type=int, default=8, metavar="N", help="rows that decode at once (default: 8)")
    add_setting(parser, "max_new_tokens")
    add_device_options(parser)
    parser.set_defaults(max_new_tokens=96)


def run(options: argparse.Namespace) -> None:
    """Decode, fit, write and print; afterwards every process that loads the checkpoint has the score."""
    folder: Path = options.checkpoint
    record = read_record(folder)
    if not record:
        raise ValueError(f"{folder / RECORD_FILE} is missing: only a checkpoint with a training record is calibrated")
    checkpoint = load_source(str(folder), options)
    problems = Families(problems=options.problems, seed=options.seed)
    asked = [problems.question(place).turns[0] for place in range(len(problems))]
    if options.prompts:
        further = requests(DistillSettings(output="", prompts=tuple(options.prompts)))
        asked += [request.prompt for request in further if request.prompt]
    proposals = collect(checkpoint, asked, options.max_new_tokens, options.batch_size)
    fitted = fit(proposals, options.seed)
    record["calibration"] = told(fitted) | {
        "prompts": len(asked),
        "proposals": len(proposals),
        "seed": options.seed,
        "dtype": checkpoint.dtype,
        **command_provenance(checkpoint.engine.device),
    }
    write_record(folder, record)
    sys.stdout.write(f"{summary(record['calibration'])}\n{machine(checkpoint.dtype, checkpoint.engine.device)}.\n")


def collect(checkpoint: Checkpoint, asked: Sequence[str], max_new_tokens: int, batch_size: int) -> pd.DataFrame:
    """The proposals of masks while the text of one-token mode is written, each with whether that has the same token.

    Exact decoding with masks behind every prefix writes that text, and its masks stand as those of a window do.
    """
    trained_mask(checkpoint.engine, "calibrate")
    settings = DecodingSettings(
        block_size=max(checkpoint.usual_block_size, 2),
        max_new_tokens=max_new_tokens,
        threshold=None,
        layout="quadratic",
    )
    prompts = [checkpoint.encode(text) for text in asked]
    found = answers(checkpoint.engine, EXACT, settings, prompts, batch_size, masks=True)
    rows = [
        (number, depth, score, answer.ids[place] == token)
        for number, answer in tqdm(found, total=len(prompts), unit="prompt", file=sys.stderr)
        for place, depth, score, token in answer.masks
        if place < len(answer.ids)  # the others are past the end
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def told(fitted: Fit) -> dict[str, Any]:
    """The fit as the record has it; the last bins are those on prompts left out."""
    return {
        "masks": fitted.masks,
        "log_loss": fitted.log_loss,
        "error": {"probability": expected_error(fitted.before), "calibrated": expected_error(fitted.after)},
        "bins": {"probability": fitted.before.to_dict("records"), "calibrated": fitted.after.to_dict("records")},
    }


def summary(calibration: dict[str, Any]) -> str:
    """What was found, for people: the pairs, and how far scores are from the share that is right."""
    pairs = [
        [f"mask {number}" if len(calibration["masks"]) > 1 else "all masks", f"{slope:.3f}", f"{offset:+.3f}"]
        for number, (slope, offset) in enumerate(calibration["masks"], 1)
    ]
    error = calibration["error"]
    losses = ", ".join(f"{name} {value:.4f}" for name, value in calibration["log_loss"].items())
    return (
        f"{aligned([['', 'slope', 'offset'], *pairs])}\n\n"
        f"Expected calibration error: {error['probability']:.4f} of probabilities, {error['calibrated']:.4f} "
        f"calibrated, on prompts left out ({calibration['prompts']} prompts, {calibration['proposals']:,} proposals).\n"
        f"Log loss: {losses}."
    )
