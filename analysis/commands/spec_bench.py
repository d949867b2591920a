"""`python -m analysis spec-bench`: accepted tokens per pass and speed-up over AR on the questions of Spec-Bench."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from analysis.benchmarks.questions import QUESTIONS, read_questions
from analysis.benchmarks.spec_bench import TASK, LaneReport, SpecBench, report, to_dict, to_table
from analysis.commands.lanes import add_lane_options, load_lanes, setup_of
from analysis.commands.shared import described_run, machine, run_provenance
from analysis.decoding.decoder_specs import BASELINE
from analysis.harness.journal import Journal

HELP = "Spec-Bench: accepted tokens per pass and speed-up over AR in the same run, by category"
DEFAULT_RUNS = "runs/spec-bench"
SHOWN = 10
NOTE = (
    "tokens/pass = new tokens / decode passes, not a speed; tok/s = mean over questions, prefill included;\n"
    f"speed-up = its ratio to {BASELINE} in this run; intervals resample the questions, paired.\n"
    "Speeds mean something on an idle machine only.\n"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_lane_options(parser, decoders=f"{BASELINE},self_speculative/auto", max_new_tokens=256)
    add = parser.add_argument
    add("--questions", type=Path, default=QUESTIONS, metavar="FILE", help=f"default: {QUESTIONS}")
    add("--limit", type=int, metavar="N", help="only the first N questions of each of the 13 categories")
    add("--batch", type=int, default=1, metavar="B", help="questions that decode at once (default: 1)")
    add("--runs", type=Path, default=Path(DEFAULT_RUNS), metavar="DIR", help=f"run store (default: {DEFAULT_RUNS})")
    add("--json", action="store_true", help="also print one JSON object, as the last line")


def run(options: argparse.Namespace) -> None:
    """Ask, print a table for each decoder and put the runs into the store; a progress bar goes to stderr.

    After an interruption the same command goes on where it stopped.

    Raises:
        ValueError: one sentence about the option, question or file at fault.
    """
    if options.batch < 1:
        raise ValueError(f"batch must be >= 1, got {options.batch}")
    questions = read_questions(options.questions, options.limit)
    lanes = load_lanes(options, with_baseline=True)
    checkpoint = lanes[-1].checkpoint
    described = described_run(checkpoint.dtype, checkpoint.engine.device)
    bench = SpecBench(
        lanes=lanes,
        questions=questions,
        batch_size=options.batch,
        setup=setup_of(options, lanes, questions, TASK),
    )
    with Journal(options.runs / bench.journal_name()) as journal:
        resumed = len(journal)
        with tqdm(total=len(questions), unit="question", file=sys.stderr) as bar:
            answered = bench.answers(journal, bar.update)
        runs = bench.store(answered, options.runs, run_provenance(described))
        journal.remove()
    reports = report(answered, questions)
    sys.stdout.write("\n\n".join(f"{lane.label}\n{to_table(lane)}" for lane in reports) + f"\n\n{NOTE}")
    sys.stdout.write("".join(f"{line}\n" for line in _notes(reports, lanes[0].checkpoint.name, resumed)))
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    if options.json:
        sys.stdout.write(json.dumps(_described(options, reports, runs, described), allow_nan=False) + "\n")


def _notes(reports: list[LaneReport], baseline: str, resumed: int) -> Iterator[str]:
    """Notes for a reader of the tables: the baseline, and the texts that differ from its."""
    yield f"{BASELINE} decodes with {baseline}."
    if resumed:
        yield f"{resumed} of the batches are those of the run that was interrupted."
    for lane in reports[1:]:
        listed = [f"{each.question} (turn {each.turn + 1}, token {each.token})" for each in lane.differences]
        if listed:
            more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
            yield f"{lane.label} first differs from {BASELINE} in question {', '.join(listed[:SHOWN])}{more}."


def _described(
    options: argparse.Namespace, reports: list[LaneReport], runs: list[str], described: dict[str, Any]
) -> dict[str, Any]:
    return {
        "results": [to_dict(lane) for lane in reports],
        "checkpoint": str(options.checkpoint),
        "baseline": options.baseline,
        "questions": str(options.questions),
        "limit": options.limit,
        "batch_size": options.batch,
        "max_new_tokens": options.max_new_tokens,
        "runs": str(options.runs),
        "ids": runs,
        **described,
    }
