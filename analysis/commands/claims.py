"""`python -m analysis claims`: judge the claims from the run store and write the page of verdicts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.claims import judge, read_evidence, to_markdown
from analysis.runs import read_runs
from analysis.studies import RUNS
from analysis.text_table import aligned

HELP = "judge the claims from the run store and write docs/claims.md"
PAGE = "docs/claims.md"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runs", default=RUNS, metavar="DIR", help=f"the run store (default: {RUNS})")
    add("--out", metavar="FILE", help=f"the page to write (default: {PAGE}, or claims.md in another store)")


def run(options: argparse.Namespace) -> None:
    """Write the page and print the verdicts."""
    folder = Path(options.runs)
    page = Path(options.out or (PAGE if folder == Path(RUNS) else folder / "claims.md"))
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    store = read_runs(folder)
    if not store.entries and not list(folder.glob("*.json")):
        raise ValueError(f"{folder} has no runs: measure some first, or name another folder")
    found, real = (judge(read_evidence(store, folder, real=which)) for which in (False, True))
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(to_markdown(found, folder, store.problems, real), encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{page} cannot be written: {error.strerror}") from error
    for problem in store.problems:
        sys.stderr.write(f"left out: {problem}\n")
    lines = [("claim", "tiny models", "real model")]
    lines += [
        (f"{claim.number}. {claim.title}", finding.verdict.value, real[claim].verdict.value)
        for claim, finding in found.items()
    ]
    sys.stdout.write(f"{aligned(lines)}\n\n{len(store.entries)} runs, {page}\n")
