"""`python -m analysis draw-prompts`: the prompts of assets/benchmarks/verifiable, from the sources that it names."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from analysis.benchmarks.ifeval import load_registry
from analysis.benchmarks.verifiable import PROMPTS, drawn, prompts_of_training, questions_of

HELP = "more prompts in IFEval's form, from questions of other sources"
TRAINING = "assets/adapters/smollm2-135m-mars/conversations*.jsonl"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        required=True,
        metavar="DIR",
        help="with gsm8k/test.jsonl, oos_eval/data_full.json and spec_bench/question.jsonl",
    )
    add("--output", type=Path, default=PROMPTS, metavar="FILE", help=f"default: {PROMPTS}")


def run(options: argparse.Namespace) -> None:
    """Draw them and write the file: the same one each time."""
    registry, _ = load_registry()
    seen = prompts_of_training(sorted(Path().glob(TRAINING)))
    lines = drawn(questions_of(options.data), registry, seen)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    given = sum(len(line["kwargs"]) for line in lines)
    sys.stdout.write(f"{options.output}: {len(lines):,} prompts with {given:,} instructions.\n")
