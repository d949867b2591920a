"""`python -m analysis ifeval`: how many instructions are followed under each decoder, with throughput."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from analysis.benchmarks.accuracy import COLUMNS, INSTRUCTIONS, figures
from analysis.benchmarks.ifeval import TASK, TASKS, instructions, load_checkers, question_set, read_prompts
from analysis.commands.lanes import add_lane_options, add_timed_option, chunk_of, measure
from analysis.commands.shared import print_json
from analysis.text_table import table_of
from mars.decoders import BASELINE

HELP = "IFEval: instructions followed, strict, with throughput"
MOST_TOKENS = 1280
"""The limit of the harness's own task."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_lane_options(parser, decoders=BASELINE, max_new_tokens=MOST_TOKENS, runs="runs/ifeval")
    add = parser.add_argument
    add(
        "--task",
        default=TASK,
        metavar="NAME",
        help=f"{' or '.join(TASKS)}, or a name of your own for --prompts (default: {TASK})",
    )
    add("--prompts", type=Path, metavar="FILE", help="other prompts in IFEval's form (default: those of the task)")
    add("--limit", type=int, metavar="N", help="only the first N prompts")
    add("--batch-size", type=int, default=16, metavar="B", help="prompts that decode at once (default: 16)")
    add_timed_option(parser)


def run(options: argparse.Namespace) -> None:
    """Ask, check, print a table and put the runs into the store."""
    path = _prompts_of(options.task, options.prompts)
    prompts = read_prompts(path, options.limit)
    checkers = load_checkers()
    measured = measure(
        options,
        question_set(options.task, prompts, options.limit, checkers),
        batch_size=options.batch_size,
        chunk=chunk_of(len(prompts), max(options.batch_size, 1), timed=options.timed),
        timed=options.timed,
        task=options.task,
    )
    found = [
        figures(label, rows, measured.baseline, instructions(rows, prompts, checkers.followed))
        for label, rows in measured.rows.items()
    ]
    sys.stdout.write(f"{table_of(found, (*COLUMNS, *INSTRUCTIONS))}\n\n")
    sys.stdout.write("".join(f"{note}\n" for note in [f"Checked by {checkers.by}.", *measured.notes]))
    results = [asdict(each) for each in found]
    print_json(options, results=results, prompts=str(path), limit=options.limit, **measured.told)


def _prompts_of(task: str, prompts: Path | None) -> Path:
    """The file to read; other prompts than a task's have another name, so that no accuracy is taken for its.

    ValueError where the task has no prompts, or others than those given.
    """
    if prompts is None and task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)} without --prompts, got {task!r}")
    if prompts is not None and task in TASKS and prompts != TASKS[task]:
        raise ValueError(f"task must be a name of your own for {prompts}, got {task!r}: give --task NAME")
    return TASKS[task] if prompts is None else prompts
