"""`python -m analysis columns`: the cost of a pass by its columns, on one model, for a lesson."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tqdm import tqdm

from analysis.benches.columns import column_times
from analysis.commands.shared import described_run, machine, parse_sizes
from analysis.text_table import aligned
from mars.checkpoint import load_checkpoint
from mars.engine import ModelEngine
from mars.options import add_device_options

HELP = "time passes of 1, 2, … columns of a checkpoint, and write the times to a file"
COLUMNS = "1,2,3,4,6,8,12,16,24,32"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help="the model whose passes are timed")
    add("--columns", default=COLUMNS, metavar="N,N,…", help=f"columns of a pass (default: {COLUMNS})")
    add("--context", type=int, default=256, metavar="N", help="cached positions before them (default: 256)")
    add("--repeats", type=int, default=30, metavar="N", help="rounds of ten passes of each (default: 30)")
    add_device_options(parser, dtype=False)
    add("--output", type=Path, required=True, metavar="FILE.json", help="where to write the times")


def run(options: argparse.Namespace) -> None:
    """Measure, print the table and write the file."""
    columns = parse_sizes(options.columns, "columns")
    for name, value in (("--context", options.context), ("--repeats", options.repeats)):
        if value < 1:
            raise ValueError(f"{name} must be >= 1, got {value}")
    if not (folder := options.output.parent).is_dir():
        raise ValueError(f"--output {options.output} cannot be written: there is no folder {folder}")
    checkpoint = load_checkpoint(options.checkpoint, device=options.device)
    engine = checkpoint.engine
    if not isinstance(engine, ModelEngine):
        raise ValueError(f"--checkpoint must be a model of weights, got {options.checkpoint}")
    load = os.getloadavg()[0]  # before it: whether other programs ran as well
    with tqdm(total=len(columns) * (options.repeats + 1), unit="round", file=sys.stderr) as bar:
        times = column_times(engine, columns, options.context, options.repeats, bar.update)
    told = {
        "checkpoint": checkpoint.name,
        "context": options.context,
        "repeats": options.repeats,
        "load": round(load, 2),
        "times": [
            {"columns": width, "seconds": time.median, "low": time.low, "high": time.high}
            for width, time in times.items()
        ],
        **described_run(checkpoint.dtype, engine.device),
    }
    options.output.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    first = times[columns[0]].median
    lines = [("columns", "ms/pass", "× the first")]
    lines += [(str(width), f"{time.median * 1000:.2f}", f"{time.median / first:.2f}") for width, time in times.items()]
    sys.stdout.write(f"{aligned(lines)}\n\n{checkpoint.name}, {machine(checkpoint.dtype, engine.device)}\n")
