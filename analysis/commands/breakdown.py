"""`python -m analysis breakdown`: tokens per forward by position, by entropy and by number of masks, for the report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm

from analysis.benchmarks.adapter_card import training_curve
from analysis.benchmarks.breakdown import ENTROPIES, LAYOUT, PLACES, POSITIONS, breakdown
from analysis.benchmarks.lanes import check_fits, described
from analysis.benchmarks.questions import QUESTIONS, fingerprint, read_questions
from analysis.benchmarks.spec_bench import TASK
from analysis.commands.shared import described_run, machine, parse_sizes
from analysis.figures import breakdown_points
from analysis.text_table import aligned
from mars.checkpoint.checkpoint import load_source
from mars.options import SOURCES, add_base_options, add_device_options

HELP = "count where exact decoding gains its tokens on Spec-Bench, untimed, and write the counts to a file"
BLOCK_SIZES = "2,3,4,5,6,7,8"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help=f"{SOURCES}, or an adapter: a model that fills masks")
    add_base_options(parser)
    add("--block-sizes", default=BLOCK_SIZES, metavar="B,B,…", help=f"one more than the masks (default: {BLOCK_SIZES})")
    add("--questions", type=Path, default=QUESTIONS, metavar="FILE", help=f"default: {QUESTIONS}")
    add("--limit", type=int, default=4, metavar="N", help="the first N questions of each category (default: 4)")
    add("--max-new-tokens", type=int, default=256, metavar="N", help="the most tokens of an answer (default: 256)")
    add("--batch", type=int, default=PLACES, metavar="B", help=f"questions at once (default: {PLACES})")
    add("--threads", type=int, metavar="N", help="torch threads (default: torch's own choice)")
    add_device_options(parser)
    add("--output", type=Path, required=True, metavar="FILE.json", help="where to write the counts")


def run(options: argparse.Namespace) -> int:
    """Decode, write the file and print what the report draws of it; a progress bar goes to stderr.

    Returns 1 if a text is not that of AR.

    Raises:
        ValueError: one sentence about the option, question or checkpoint at fault.
    """
    sizes = parse_sizes(options.block_sizes, "block sizes")
    if min(sizes) < 2:
        raise ValueError(f"block sizes must be >= 2, for a block of 1 has no mask, got {min(sizes)}")
    for name, value in (("batch", options.batch), ("threads", options.threads)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be >= 1, got {value}")
    questions = read_questions(options.questions, options.limit)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    checkpoint = load_source(options.checkpoint, options)
    if not checkpoint.supports_masks:
        raise ValueError(f"{checkpoint.name} was not trained to fill masks: give an adapter or a MARS checkpoint")
    check_fits(checkpoint, questions, options.max_new_tokens)
    with tqdm(total=len(questions) * (1 + len(sizes)), unit="answer", file=sys.stderr) as bar:
        results = breakdown(checkpoint, questions, sizes, options.max_new_tokens, options.batch, bar.update)
    found = {
        "schema": 1,
        "model": described(options.checkpoint, checkpoint),
        "block_size": checkpoint.usual_block_size,
        "layout": LAYOUT,
        "task": TASK,
        "questions": fingerprint(questions),
        "limit": options.limit,
        "max_new_tokens": options.max_new_tokens,
        "batch_size": options.batch,
        "positions": POSITIONS,
        "entropies": ENTROPIES,
        "results": results,
        "training": training_curve(checkpoint.record).round(4).to_dict("records"),
        **described_run(checkpoint.dtype, checkpoint.engine.device),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, separators=(",", ":"), allow_nan=False) + "\n", encoding="utf-8")
    texts = [question["same"] for result in results for question in result["questions"]]
    sys.stdout.write(f"{aligned(_lines(breakdown_points(found)))}\n\n")
    sys.stdout.write(f"{sum(texts)} of {len(texts)} texts are those of AR.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    return 0 if all(texts) else 1


def _lines(points: pd.DataFrame) -> list[tuple[str, ...]]:
    return [("by", "", "n", "tokens/forward", "95 % interval"), *map(_line, points.to_dict("records"))]


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    measured = pd.notna(row["n"])
    low, high = (row[f"tokens_per_forward_{end}"] for end in ("low", "high"))
    return (
        str(row["by"]),
        str(row["label"]),
        f"{int(row['n'])}" if measured else "–",
        f"{row['tokens_per_forward']:.2f}",
        f"{low:.2f} to {high:.2f}" if measured else "estimated",
    )
