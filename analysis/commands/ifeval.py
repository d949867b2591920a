"""`python -m analysis ifeval`: how many instructions are followed under each decoder, with throughput."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from analysis.benchmarks import ifeval, verifiable
from analysis.benchmarks.benchmark import Benchmark
from analysis.benchmarks.ifeval import (
    COLUMNS,
    METRIC,
    batches_of_a_turn,
    figures,
    load_checkers,
    read_prompts,
    to_dict,
)
from analysis.benchmarks.lanes import training_of
from analysis.commands import print_json
from analysis.commands.lanes import add_lane_options, described_benchmark, load_lanes, setup_of
from analysis.commands.shared import described_run, drift_note, machine, run_provenance
from analysis.decoding.decoder_specs import BASELINE
from analysis.runs import read_runs
from analysis.runs.files import write_run
from analysis.text_table import table_of

HELP = "IFEval: instructions followed, strict, with throughput"
MOST_TOKENS = 1280
"""The limit of the harness's own task."""
TASKS = {ifeval.TASK: ifeval.PROMPTS, verifiable.TASK: verifiable.PROMPTS}
"""The shipped prompts, by the name that their runs have."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_lane_options(parser, decoders=BASELINE, max_new_tokens=MOST_TOKENS, runs="runs/ifeval")
    add = parser.add_argument
    add(
        "--task",
        default=ifeval.TASK,
        metavar="NAME",
        help=f"{' or '.join(TASKS)}, or a name of your own for --prompts (default: {ifeval.TASK})",
    )
    add("--prompts", type=Path, metavar="FILE", help="other prompts in IFEval's form (default: those of the task)")
    add("--limit", type=int, metavar="N", help="only the first N prompts")
    add("--batch-size", type=int, default=16, metavar="B", help="prompts that decode at once (default: 16)")
    add(
        "--timed",
        action="store_true",
        help="for an otherwise idle machine: the decoders take turns, so that their speeds can be compared",
    )


def run(options: argparse.Namespace) -> None:
    """Ask, check, print a table and put the runs into the store.

    After an interruption the same command goes on where it stopped; runs that the store has are not repeated.
    """
    if options.batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {options.batch_size}")
    path = _prompts_of(options.task, options.prompts)
    prompts = read_prompts(path, options.limit)
    checkers = load_checkers()
    lanes = load_lanes(options, with_baseline=options.baseline is not None)
    checkpoint = lanes[-1].checkpoint
    described = described_run(checkpoint.dtype, checkpoint.engine.device)
    benchmark = Benchmark(
        lanes=lanes,
        questions=[prompt.question(options.task) for prompt in prompts],
        batch_size=options.batch_size,
        batches=batches_of_a_turn(len(prompts), options.batch_size, timed=options.timed),
        timed=options.timed,
        setup=setup_of(options, lanes, prompts, options.task, METRIC, checkers.by),
    )
    entries = {lane.label: benchmark.entry(lane) for lane in lanes}
    by_key = {prompt.key: prompt for prompt in prompts}
    rows, notes = _measured(
        benchmark,
        entries,
        lambda number, text: all(checkers.followed(by_key[number], text)),
        options.runs,
        run_provenance(described),
    )
    first = lanes[0].label
    baseline = rows[first] if lanes[0].spec.decoder == BASELINE else None
    found = [
        figures(lane.label, prompts, rows[lane.label], checkers.followed, None if lane.label == first else baseline)
        for lane in lanes
    ]
    sys.stdout.write(f"{table_of(found, COLUMNS)}\n\n")
    sys.stdout.write("".join(f"{note}\n" for note in notes))
    sys.stdout.write(f"Checked by {checkers.by}.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    results = [to_dict(each) for each in found]
    told = described_benchmark(options, options.batch_size, results, entries.values(), described)
    print_json(options, **told, prompts=str(path), timed=options.timed)


def _prompts_of(task: str, prompts: Path | None) -> Path:
    """The file to read; other prompts than a task's have another name, so that their accuracy is never taken for its.

    Raises:
        ValueError: the task has no prompts, or others than those given.
    """
    if prompts is None and task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)} without --prompts, got {task!r}")
    if prompts is not None and task in TASKS and prompts != TASKS[task]:
        raise ValueError(f"task must be a name of your own for {prompts}, got {task!r}: give --task NAME")
    return TASKS[task] if prompts is None else prompts


def _measured(
    benchmark: Benchmark,
    entries: Mapping[str, Mapping[str, Any]],
    right: Callable[[int, str], bool],
    folder: Path,
    provenance: Mapping[str, Any],
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The rows of each lane, and notes; lanes that take turns are run together or not at all."""
    store = read_runs(folder)
    there = {entry["id"] for entry in store.entries}
    rows = {label: store.rows(entry["id"]) for label, entry in entries.items() if entry["id"] in there}
    notes = [f"{folder} had {entries[label]['id']}." for label in rows]
    missing = [lane for lane in benchmark.lanes if lane.label not in rows]
    if benchmark.timed and missing:
        missing = list(benchmark.lanes)
    with benchmark.journal(folder) as journal:
        if len(journal):
            notes.append(f"{len(journal)} answers are those of the run that was interrupted.")
        with tqdm(
            total=len(missing) * len(benchmark.questions), unit="answer", file=sys.stderr, disable=not missing
        ) as bar:
            answered = benchmark.answers(journal, bar.update, missing)
        for lane in missing:
            found = benchmark.rows(answered[lane.label], right)
            if benchmark.timed:
                found["turn"] = [place // benchmark.turn_size for place in range(len(found))]
                notes += drift_note(lane.label, found)
            write_run(folder, {**entries[lane.label], **provenance, **training_of(lane.checkpoint)}, found)
            rows[lane.label] = found
        journal.remove()
    return rows, notes
