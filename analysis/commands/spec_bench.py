"""`python -m analysis spec-bench`: accepted tokens per pass and speed-up over AR on the questions of Spec-Bench."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from analysis.benchmarks.spec_bench import COLUMNS, QUESTIONS, TASK, figures, question_set, read_questions
from analysis.commands.lanes import add_lane_options, measure
from analysis.commands.shared import print_json
from analysis.text_table import table_of
from mars.decoders import BASELINE

HELP = "Spec-Bench: accepted tokens per pass and speed-up over AR in the same run, by category"
NOTE = (
    "tokens/pass = new tokens / decode passes, not a speed; tok/s = mean over questions, prefill included;\n"
    f"speed-up = its ratio to {BASELINE} in this run; intervals resample the questions, paired.\n"
    "Speeds mean something on an idle machine only.\n"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    decoders = f"{BASELINE},self_speculative/auto"
    add_lane_options(parser, decoders=decoders, max_new_tokens=256, runs="runs/spec-bench")
    add = parser.add_argument
    add("--questions", type=Path, default=QUESTIONS, metavar="FILE", help=f"default: {QUESTIONS}")
    add("--task", default=TASK, metavar="NAME", help="a name of your own for other questions")
    add("--limit", type=int, metavar="N", help="only the first N questions of each of the 13 categories")
    add("--batch", type=int, default=1, metavar="B", help="questions that decode at once (default: 1)")


def run(options: argparse.Namespace) -> None:
    """Ask, print a table for each decoder and put the runs into the store; nobody judges the answers."""
    if options.task == TASK and options.questions != QUESTIONS:
        raise ValueError(f"task must be a name of your own for {options.questions}, got {TASK!r}: give --task NAME")
    questions = read_questions(options.questions, options.limit)
    measured = measure(
        options,
        question_set(questions, options.limit, options.task),
        batch_size=options.batch,
        chunk=max(options.batch, 1),
        timed=True,
        task=options.task,
        with_baseline=True,
    )
    found = {label: figures(rows, measured.baseline, questions) for label, rows in measured.rows.items()}
    for label, parts in found.items():
        sys.stdout.write(f"{label}\n{table_of(parts, COLUMNS)}\n\n")
    sys.stdout.write("".join([NOTE, *(f"{note}\n" for note in measured.notes)]))
    results = [
        {"decoder": label, "parts": {each.part: asdict(each) for each in parts}} for label, parts in found.items()
    ]
    print_json(options, results=results, questions=str(options.questions), limit=options.limit, **measured.told)
