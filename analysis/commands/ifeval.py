"""`python -m analysis ifeval`: how many instructions are followed under each decoder, with throughput."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from analysis.benchmarks.ifeval import PROMPTS, Checkers, Prompt, load_checkers, read_prompts
from analysis.benchmarks.ifeval_run import METRIC, TASK, Figures, IFEval, figures, rows_of, to_dict, to_table
from analysis.benchmarks.lanes import BenchmarkLane, training_of
from analysis.commands.lanes import add_lane_options, load_lanes, setup_of
from analysis.commands.shared import described_run, drift_note, machine, run_provenance
from analysis.decoding.decoder_specs import BASELINE
from analysis.harness.journal import Journal
from analysis.runs import read_runs
from analysis.runs.files import write_run

HELP = "IFEval: instructions followed, strict, with throughput"
DEFAULT_RUNS = "runs/ifeval"
MOST_TOKENS = 1280
"""The limit of the harness's own task."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_lane_options(parser, decoders=BASELINE, max_new_tokens=MOST_TOKENS)
    add = parser.add_argument
    add("--prompts", type=Path, default=PROMPTS, metavar="FILE", help=f"default: {PROMPTS}")
    add("--limit", type=int, metavar="N", help="only the first N prompts")
    add("--batch-size", type=int, default=16, metavar="B", help="prompts that decode at once (default: 16)")
    add(
        "--timed",
        action="store_true",
        help="for an otherwise idle machine: the decoders take turns, so that their speeds can be compared",
    )
    add("--runs", type=Path, default=Path(DEFAULT_RUNS), metavar="DIR", help=f"run store (default: {DEFAULT_RUNS})")
    add("--json", action="store_true", help="also print one JSON object, as the last line")


def run(options: argparse.Namespace) -> None:
    """Ask, check, print a table and put the runs into the store; a progress bar goes to stderr.

    After an interruption the same command goes on where it stopped; runs that the store has are not repeated.

    Raises:
        ValueError: one sentence about the option, prompt or file at fault.
    """
    if options.batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {options.batch_size}")
    prompts = read_prompts(options.prompts, options.limit)
    checkers = load_checkers()
    lanes = load_lanes(options, with_baseline=options.baseline is not None)
    checkpoint = lanes[-1].checkpoint
    described = described_run(checkpoint.dtype, checkpoint.engine.device)
    ifeval = IFEval(
        lanes=lanes,
        prompts=prompts,
        batch_size=options.batch_size,
        timed=options.timed,
        setup=setup_of(options, lanes, prompts, TASK, METRIC, checkers.by),
    )
    measured = _measure(ifeval, checkers, options.runs, run_provenance(described))
    found = _figures(lanes, prompts, measured.rows, checkers)
    sys.stdout.write(f"{to_table(found)}\n\n")
    sys.stdout.write("".join(f"{note}\n" for note in measured.notes))
    sys.stdout.write(f"Checked by {checkers.by}.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    if options.json:
        sys.stdout.write(json.dumps(_described(options, found, measured.ids, described), allow_nan=False) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The rows of each lane by label, the ids of their runs, and notes for the reader."""

    rows: Mapping[str, pd.DataFrame]
    ids: Sequence[str]
    notes: Sequence[str]


def _measure(ifeval: IFEval, checkers: Checkers, folder: Path, provenance: Mapping[str, Any]) -> Measured:
    """Run the lanes that the store lacks; lanes that take turns are run together or not at all."""
    store = read_runs(folder)
    there = {entry["id"] for entry in store.entries}
    entries = {lane.label: ifeval.entry(lane) for lane in ifeval.lanes}
    missing = [lane for lane in ifeval.lanes if entries[lane.label]["id"] not in there]
    if ifeval.timed and missing:
        missing = list(ifeval.lanes)
    rows = {label: store.rows(entry["id"]) for label, entry in entries.items() if entry["id"] in there}
    notes = [f"{folder} had {entry['id']}." for label, entry in entries.items() if label in rows]
    with Journal(folder / f".{TASK}-{ifeval.digest}.jsonl") as journal:
        if len(journal):
            notes.append(f"{len(journal)} answers are those of the run that was interrupted.")
        if missing:
            with tqdm(total=len(missing) * len(ifeval.prompts), unit="answer", file=sys.stderr) as bar:
                answered = ifeval.answers(missing, journal, bar.update)
            for lane in missing:
                rows[lane.label] = rows_of(ifeval.prompts, answered[lane.label], checkers.followed)
                if ifeval.timed:
                    rows[lane.label]["turn"] = [ifeval.turn(place) for place in range(len(ifeval.prompts))]
                    notes += drift_note(lane.label, rows[lane.label])
                entry = {**entries[lane.label], **provenance, **training_of(lane.checkpoint)}
                write_run(folder, entry, rows[lane.label])
        journal.remove()
    return Measured(rows=rows, ids=[str(entry["id"]) for entry in entries.values()], notes=notes)


def _figures(
    lanes: Sequence[BenchmarkLane], prompts: Sequence[Prompt], rows: Mapping[str, pd.DataFrame], checkers: Checkers
) -> list[Figures]:
    first = lanes[0].label
    baseline = rows[first] if lanes[0].spec.decoder == BASELINE else None
    return [
        figures(lane.label, prompts, rows[lane.label], checkers.followed, None if lane.label == first else baseline)
        for lane in lanes
    ]


def _described(
    options: argparse.Namespace, found: Sequence[Figures], ids: Sequence[str], described: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "results": [to_dict(each) for each in found],
        "checkpoint": str(options.checkpoint),
        "baseline": options.baseline,
        "prompts": str(options.prompts),
        "limit": options.limit,
        "batch_size": options.batch_size,
        "max_new_tokens": options.max_new_tokens,
        "timed": options.timed,
        "runs": str(options.runs),
        "ids": list(ids),
        **described,
    }
