"""`python -m analysis sweep`: run the settings of a plan and put them into the run store."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from analysis.commands import add_json_option, print_json
from analysis.commands.shared import command_provenance, drift_note
from analysis.recipes import RUNS
from analysis.runs import read_runs
from analysis.sweeps.cluster import Cluster
from analysis.sweeps.plan import SweepPlan, read_plan
from analysis.sweeps.sweep import Sweep, Swept
from analysis.sweeps.work import Process, Work
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
    process = Process.of(os.environ)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    plan = read_plan(options.plan)
    if options.ray is not None and process.count > 1:
        raise ValueError(f"--ray needs one process, which Ray shares out, got {process.count}")
    cluster = None if options.ray is None else Cluster.at(options.ray)
    with tqdm(unit="problem", file=sys.stderr, disable=process.number > 0, dynamic_ncols=True) as bar:
        sweep = Sweep(
            plan=plan,
            work=Work(folder=options.runs, process=process),
            provenance=_provenance(plan, cluster.workers if cluster else process.count),
            bar=bar,
            cluster=cluster,
        )
        swept = sweep.run()
    if process.number == 0:
        _print(swept, options)


def _provenance(plan: SweepPlan, processes: int) -> dict[str, Any]:
    found = command_provenance(choose_device(plan.groups[0].device))
    return {**found, "threads": torch.get_num_threads(), "processes": processes, "plan": plan.name}


def _print(swept: Swept, options: argparse.Namespace) -> None:
    store = read_runs(options.runs)
    for problem in store.problems:
        sys.stderr.write(f"left out: {problem}\n")
    table = store.table()
    lines: list[tuple[str, ...]] = [("run", "n", "accuracy", "tok/fwd", "tok/s")]
    for row in table[table["id"].isin(swept.run)].to_dict("records"):
        rates = f"{row['tokens_per_forward']:.2f}", f"{row['tokens_per_second']:.0f}"
        lines.append((row["id"], str(row["n"]), f"{row['accuracy']:.1%}", *rates))
    if swept.run:
        sys.stdout.write(aligned(lines) + "\n\n")
    for run in swept.run:
        sys.stdout.write("".join(f"{note}\n" for note in drift_note(run, store.rows(run))))
    sys.stdout.write(f"{len(swept.run)} run, {len(swept.skipped)} were there, in {swept.seconds:.0f} s")
    sys.stdout.write(f"; {len(swept.left)} wait for other processes\n" if swept.left else "\n")
    print_json(options, plan=str(options.plan), runs=str(options.runs), **asdict(swept))
