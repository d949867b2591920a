"""`python -m analysis spec-bench`: accepted tokens per pass and speed-up over AR on the questions of Spec-Bench."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from analysis.benchmarks.benchmark import Benchmark
from analysis.benchmarks.questions import QUESTIONS, read_questions
from analysis.benchmarks.spec_bench import COLUMNS, TASK, LaneReport, report, to_dict
from analysis.commands import print_json
from analysis.commands.lanes import add_lane_options, described_benchmark, load_lanes, setup_of
from analysis.commands.shared import described_run, machine, run_provenance
from analysis.decoding.decoder_specs import BASELINE
from analysis.runs.files import write_run
from analysis.text_table import table_of

HELP = "Spec-Bench: accepted tokens per pass and speed-up over AR in the same run, by category"
SHOWN = 10
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
    add("--limit", type=int, metavar="N", help="only the first N questions of each of the 13 categories")
    add("--batch", type=int, default=1, metavar="B", help="questions that decode at once (default: 1)")


def run(options: argparse.Namespace) -> None:
    """Ask, print a table for each decoder and put the runs into the store; nobody judges the answers.

    After an interruption the same command goes on where it stopped.
    """
    if options.batch < 1:
        raise ValueError(f"batch must be >= 1, got {options.batch}")
    questions = read_questions(options.questions, options.limit)
    lanes = load_lanes(options, with_baseline=True)
    checkpoint = lanes[-1].checkpoint
    setup = setup_of(options, lanes, questions, TASK)
    bench = Benchmark(lanes=lanes, questions=questions, batch_size=options.batch, setup=setup)
    entries = [bench.entry(lane) for lane in lanes]
    described = described_run(checkpoint.dtype, checkpoint.engine.device)
    with bench.journal(options.runs) as journal:
        resumed = len(journal)
        with tqdm(total=len(lanes) * len(questions), unit="answer", file=sys.stderr) as bar:
            answered = bench.answers(journal, bar.update)
        for lane, entry in zip(lanes, entries, strict=True):
            write_run(options.runs, {**entry, **run_provenance(described)}, bench.rows(answered[lane.label]))
        journal.remove()
    reports = report(answered, questions)
    tables = [f"{lane.label}\n{table_of(lane.figures, COLUMNS)}\n\n" for lane in reports]
    sys.stdout.write("".join([*tables, NOTE]))
    sys.stdout.write("".join(f"{line}\n" for line in _notes(reports, lanes[0].checkpoint.name, resumed)))
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    told = described_benchmark(options, options.batch, [to_dict(lane) for lane in reports], entries, described)
    print_json(options, **told, questions=str(options.questions))


def _notes(reports: list[LaneReport], baseline: str, resumed: int) -> Iterator[str]:
    """Notes for a reader of the tables: the baseline, and the texts that differ from its."""
    yield f"{BASELINE} decodes with {baseline}."
    if resumed:
        yield f"{resumed} answers are those of the run that was interrupted."
    for lane in reports[1:]:
        listed = [f"{each.question} (turn {each.turn + 1}, token {each.token})" for each in lane.differences]
        if listed:
            more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
            yield f"{lane.label} first differs from {BASELINE} in question {', '.join(listed[:SHOWN])}{more}."
