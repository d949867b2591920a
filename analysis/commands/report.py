"""`python -m analysis report`: the runs of a store as one page of figures, with their numbers as CSV."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from analysis.runs import read_runs
from analysis.studies import RUNS

HELP = "write one self-contained HTML page of figures from the run store, and a CSV file for each figure"
PASS_TIMES = Path("assets/lessons/pass-times.json")


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="folder that the page and the CSV files are written to")
    add("--runs", default=RUNS, metavar="DIR", help=f"folder of the run store (default: {RUNS})")
    add(
        "--pass-times",
        type=Path,
        metavar="FILE",
        help=f"the file that `analysis columns` wrote (default: {PASS_TIMES})",
    )


def run(options: argparse.Namespace) -> None:
    """Measure, draw and write; a list of skipped runs goes to stderr, the path of the page to stdout."""
    from analysis.figures import measure  # Plotly and the statistics take a moment that other commands need not wait
    from analysis.published import read_published
    from analysis.report.page import write_report
    from analysis.report.sections import Evidence, sections

    folder, out = Path(options.runs), Path(options.out)
    if not folder.is_dir():
        raise ValueError(f"--runs must be a folder with runs, got {options.runs}")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a folder, got the file {options.out}")
    pass_times = _pass_times(options.pass_times)
    runs = read_runs(folder)
    with tqdm(total=len(runs.entries), unit="run", file=sys.stderr) as bar:
        evidence = Evidence(
            runs=runs,
            table=measure(runs, read_published(), progress=bar.update),
            pass_times=pass_times,
        )
    for sentence in runs.problems:
        sys.stderr.write(f"left out: {sentence}\n")
    page, *tables = write_report(out, evidence, sections(evidence))
    sys.stdout.write(f"{page}: {len(runs.entries)} runs, {len(tables)} figures with numbers\n")


def _pass_times(given: Path | None) -> dict[str, Any] | None:
    """The file of `analysis columns`: the one given, or the one of this repository if it is there."""
    path = given or PASS_TIMES
    if given is None and not path.is_file():
        return None
    found = _read(path, "columns")
    if not {"times", "checkpoint", "dtype", "hardware", "date"} <= set(found):
        raise ValueError(f"{path} must be a file that analysis columns wrote")
    return found


def _read(path: Path, command: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be a file that analysis {command} wrote: {error}") from error
    return found
