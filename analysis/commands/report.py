"""`python -m analysis report`: the runs of a store as one page of figures, with their numbers as CSV."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from analysis.runs import read_runs

HELP = "write one self-contained HTML page of figures from the run store, and a CSV file for each figure"
DEFAULT_RUNS = "assets/runs"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="folder that the page and the CSV files are written to")
    add("--runs", default=DEFAULT_RUNS, metavar="DIR", help=f"folder of the run store (default: {DEFAULT_RUNS})")


def run(options: argparse.Namespace) -> None:
    """Measure, draw and write; a progress bar and what was left out go to stderr, the path of the page to stdout.

    Raises:
        ValueError: one sentence about the folder or file at fault.
    """
    from analysis.figures import measure  # Plotly and the statistics take a moment that other commands need not wait
    from analysis.published import read_published
    from analysis.report.evidence import FAMILY_MEASURES, Evidence
    from analysis.report.page import write_report
    from analysis.report.sections import sections

    folder, out = Path(options.runs), Path(options.out)
    if not folder.is_dir():
        raise ValueError(f"--runs must be a folder with runs, got {options.runs}")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a folder, got the file {options.out}")
    runs = read_runs(folder)
    families = list(dict.fromkeys(task for entry in runs.entries for task in entry["tasks"]))
    with tqdm(total=2 * len(runs.entries), unit="run", file=sys.stderr) as bar:
        evidence = Evidence(
            runs=runs,
            table=measure(runs, read_published(), progress=bar.update),
            by_family=measure(runs, families=families, measures=FAMILY_MEASURES, progress=bar.update),
        )
    for sentence in runs.problems:
        sys.stderr.write(f"left out: {sentence}\n")
    page, *tables = write_report(out, evidence, sections(evidence))
    sys.stdout.write(f"{page}: {len(runs.entries)} runs, {len(tables)} figures with numbers\n")
