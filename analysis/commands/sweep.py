"""`python -m analysis sweep`: run the settings of a plan and put them into the run store."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from tqdm import tqdm

from analysis.commands.shared import add_json_option, command_provenance, print_json
from analysis.runs import read_runs
from analysis.studies import RUNS
from analysis.sweeps.cluster import Cluster
from analysis.sweeps.jobs import turns_of
from analysis.sweeps.plan import read_plan
from analysis.sweeps.sweep import Sweep
from analysis.sweeps.work import Work
from analysis.text_table import aligned
from mars.checkpoint.checkpoint import choose_device

HELP = "run the settings of a plan, chunk by chunk, and put them into the run store"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("plan", type=Path, metavar="PLAN.toml", help="groups of settings; see analysis/plans and docs/runs.md")
    add("--runs", type=Path, default=Path(RUNS), metavar="DIR", help=f"the run store (default: {RUNS})")
    add("--ray", metavar="ADDRESS", help="decode the chunks on the Ray cluster at this address, such as auto")
    add_json_option(parser)


def run(options: argparse.Namespace) -> None:
    """Make the missing runs and print the result."""
    plan = read_plan(options.plan)
    cluster = None if options.ray is None else Cluster.at(options.ray)
    provenance = {
        **command_provenance(choose_device(plan.groups[0].device)),
        "threads": torch.get_num_threads(),
        "processes": cluster.workers if cluster else 1,
        "plan": plan.name,
    }
    with tqdm(unit="problem", file=sys.stderr, dynamic_ncols=True) as bar:
        work = Work(folder=options.runs)
        swept = Sweep(turns=turns_of(plan), work=work, provenance=provenance, bar=bar, cluster=cluster).run()
    store = read_runs(options.runs)
    sys.stderr.write("".join(f"left out: {problem}\n" for problem in store.problems))
    table = store.table()
    lines: list[tuple[str, ...]] = [("run", "n", "accuracy", "tok/fwd", "tok/s")]
    for row in table[table["id"].isin(swept.run)].to_dict("records"):
        rates = f"{row['tokens_per_forward']:.2f}", f"{row['tokens_per_second']:.0f}"
        lines.append((row["id"], str(row["n"]), f"{row['accuracy']:.1%}", *rates))
    if swept.run:
        sys.stdout.write(aligned(lines) + "\n\n")
    sys.stdout.write(f"{len(swept.run)} run, {len(swept.skipped)} were there, in {swept.seconds:.0f} s\n")
    print_json(options, plan=str(options.plan), runs=str(options.runs), **asdict(swept))
