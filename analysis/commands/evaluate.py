"""`python -m analysis evaluate`: accuracy on held-out problems under each decoder, its difference to AR, speed."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from analysis.benchmarks.accuracy import COLUMNS, figures
from analysis.benchmarks.questions import Families
from analysis.commands.lanes import add_lane_options, add_timed_option, chunk_of, measure
from analysis.commands.shared import print_json
from analysis.text_table import aligned, table_of
from mars.config import DEFAULTS
from mars.decoders import BASELINE
from mars_tasks import TASKS

HELP = "accuracy on held-out problems under each decoder, with its difference to AR, tokens per forward and speed"


def add_options(parser: argparse.ArgumentParser) -> None:
    longest = int(DEFAULTS["max_new_tokens"])
    add_lane_options(parser, decoders=BASELINE, max_new_tokens=longest, runs="runs/evaluate")
    add = parser.add_argument
    add("--tasks", default="all", metavar="all|a,b", help=f"families, separated by commas: {', '.join(TASKS)}")
    add("--problems", type=int, required=True, metavar="N", help="held-out problems of each family")
    add("--seed", type=int, required=True, metavar="S", help="another seed takes other problems")
    add("--batch-size", type=int, default=16, metavar="B", help="problems that decode at once (default: 16)")
    add_timed_option(parser)


def run(options: argparse.Namespace) -> None:
    """Ask, check, print a table and put the runs into the store, which are those of a sweep with these settings."""
    names = tuple(TASKS) if options.tasks == "all" else tuple(name.strip() for name in options.tasks.split(","))
    questions = Families(problems=options.problems, seed=options.seed, tasks=names)
    chunk = chunk_of(len(questions), max(options.batch_size, 1), timed=options.timed)
    measured = measure(options, questions, batch_size=options.batch_size, chunk=chunk, timed=options.timed)
    found = [figures(label, rows, measured.baseline) for label, rows in measured.rows.items()]
    shares = [[each.label, *(f"{share.value:.1%}" for share in each.by_task.values())] for each in found]
    sys.stdout.write(f"{table_of(found, COLUMNS)}\n\n{aligned([['accuracy', *found[0].by_task], *shares])}\n\n")
    sys.stdout.write("Brackets: 95 % (Wilson; points: score interval of the same problems).\n")
    sys.stdout.write("".join(f"{note}\n" for note in measured.notes))
    results = [asdict(each) for each in found]
    print_json(options, results=results, problems=options.problems, seed=options.seed, **measured.told)
