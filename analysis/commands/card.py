"""`python -m analysis card`: write the measured part of a checkpoint's model card from the run store."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.benchmarks.card import default_of, measured_part, with_measured
from analysis.benchmarks.ifeval import load_checkers, read_prompts
from analysis.benchmarks.spec_bench import read_questions
from analysis.runs import read_runs
from analysis.runs.baseline import ArModels
from analysis.studies import RUNS
from analysis.sweeps.models import describe
from mars.checkpoint.calibration import write_record
from mars.checkpoint.checkpoint import read_record

HELP = "write the measured part of a model card, and the threshold to begin with into mars.json, from stored runs"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint", type=Path, required=True, metavar="DIR", help="folder of a checkpoint or an adapter")
    add("--baseline", metavar="SOURCE", help="whose AR it is compared with (default: an AR model of its size)")
    add("--runs", type=Path, default=Path(RUNS), metavar="DIR", help=f"the run store (default: {RUNS})")


def run(options: argparse.Namespace) -> None:
    """Put the tables in the place of those that the card has, or at its end; nothing is decoded."""
    folder, store = options.checkpoint, read_runs(options.runs)
    model = describe(str(folder))
    baseline = describe(options.baseline)["fingerprint"] if options.baseline else None
    baseline = baseline or ArModels(store.entries).baseline_of(model)
    record = read_record(folder)
    if record and (default := default_of(store, model["fingerprint"], baseline)):
        record["default"] = default
        write_record(folder, record)
    part = measured_part(
        record,
        store,
        model["fingerprint"],
        baseline,
        read_questions(),
        read_prompts(),
        lambda: load_checkers().followed,
    )
    if not part:
        raise ValueError(f"{options.runs} has no runs of {folder}: make some with evaluate, ifeval or spec-bench")
    card = folder / "README.md"
    before = card.read_text(encoding="utf-8") if card.is_file() else f"# {folder.resolve().name}\n"
    card.write_text(with_measured(before, part), encoding="utf-8")
    sys.stdout.write(f"{part}\n")
