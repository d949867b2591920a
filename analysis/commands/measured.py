"""`python -m analysis measured`: the measured tables of a run store, kept in it for the Trade-offs tab."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from analysis.studies import RUNS

HELP = "measure the runs of a store once and keep the tables in it, so that Trade-offs opens at once"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", default=RUNS, metavar="DIR", help=f"folder of the run store (default: {RUNS})")


def run(options: argparse.Namespace) -> None:
    """Measure and write; the path of the file to stdout."""
    from analysis.measured import write_measured  # Plotly and the statistics take a moment

    if not Path(options.runs).is_dir():
        raise ValueError(f"--runs must be a folder with runs, got {options.runs}")
    with tqdm(unit="run", file=sys.stderr) as bar:
        file = write_measured(Path(options.runs), bar.update)
    sys.stdout.write(f"{file}\n")
