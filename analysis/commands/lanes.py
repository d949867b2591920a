"""What evaluate, ifeval and spec-bench share: decoders on a checkpoint that answer the same questions, as runs."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm

from analysis.benchmarks.questions import QuestionSet
from analysis.commands.shared import add_json_option, described_run, machine, run_provenance
from analysis.decoding.decoder_specs import (
    BASELINE,
    GENERATE,
    DecoderSpec,
    check_runnable,
    parse_decoder_specs,
    parse_threshold,
)
from analysis.runs import read_runs
from analysis.stats.turns import FEWEST
from analysis.sweeps.jobs import Job, check_fits, setting_of
from analysis.sweeps.models import ModelKey, Models, describe, training_of
from analysis.sweeps.sweep import Sweep
from analysis.sweeps.work import Work
from mars.config import DecodingSettings
from mars.options import SOURCES, add_base_options, add_device_options
from mars.provenance import hardware

BATCHES = 8
"""Batches that a lane decodes before it is the turn of the next, at most: the end of a turn has free places."""


def add_lane_options(parser: argparse.ArgumentParser, *, decoders: str, max_new_tokens: int, runs: str) -> None:
    """Add the options for the models, the decoders and the store of the `runs`."""
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help=f"{SOURCES}, or an adapter")
    add_base_options(parser)
    add("--baseline", metavar="SOURCE", help=f"the checkpoint of {BASELINE} (default: that of --checkpoint)")
    add("--draft", metavar="SOURCE", help="the model that drafts, for speculative")
    add(
        "--decoders",
        "--decoder",
        default=decoders,
        metavar="A,B",
        help="such as autoregressive, self_speculative/auto, sliding_window@0.95, jacobi/k4, separated by commas "
        f"(default: {decoders})",
    )
    add("--threshold", default="0.95", metavar="T", help="for decoders that name none (default: 0.95)")
    add(
        "--max-new-tokens",
        type=int,
        default=max_new_tokens,
        metavar="N",
        help=f"the most tokens of an answer (default: {max_new_tokens})",
    )
    add("--threads", type=int, metavar="N", help="torch threads (default: torch's own choice)")
    add_device_options(parser)
    add("--runs", type=Path, default=Path(runs), metavar="DIR", help=f"run store (default: {runs})")
    add_json_option(parser)


def add_timed_option(parser: argparse.ArgumentParser) -> None:
    """Add --timed."""
    parser.add_argument(
        "--timed",
        action="store_true",
        help="for an otherwise idle machine: the decoders take turns, so that their speeds can be compared",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The rows of each lane by its label, AR's `baseline` first where there is one, with notes for a reader.

    `told` is what --json says of the options, the runs and the machine.
    """

    rows: dict[str, pd.DataFrame]
    baseline: pd.DataFrame | None
    notes: list[str]
    told: dict[str, Any]


def chunk_of(questions: int, batch_size: int, *, timed: bool) -> int:
    """Questions between two saves, whole batches; those of a timed run are turns, of which an interval needs some."""
    return batch_size * max(1, min(BATCHES, questions // (FEWEST * batch_size)) if timed else BATCHES)


def measure(
    options: argparse.Namespace,
    questions: QuestionSet,
    *,
    batch_size: int,
    chunk: int,
    timed: bool,
    task: str | None = None,
    with_baseline: bool = False,
) -> Measured:
    """Make the runs that the store lacks; an interrupted command goes on where it stopped.

    `task` stands in the ids of the runs and their group. With --baseline, or `with_baseline`, AR is the first lane.
    ValueError, one sentence about the option, question or file at fault.
    """
    for name, value in (("batch_size", batch_size), ("threads", options.threads)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be >= 1, got {value}")
    specs = parsed(options.decoders, parse_threshold(options.threshold), draft=options.draft is not None)
    if (with_baseline or options.baseline) and specs[0].decoder != BASELINE:
        specs.insert(0, DecoderSpec(decoder=BASELINE, label=BASELINE))
    DecodingSettings(max_new_tokens=options.max_new_tokens)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    models = Models()
    jobs = _jobs(options, specs, questions, models, batch_size=batch_size, chunk=chunk, timed=timed, task=task)
    checkpoint = models.get(next(reversed(jobs.values())).key)
    described = described_run(checkpoint.dtype, checkpoint.engine.device)
    with tqdm(unit="answer", file=sys.stderr, dynamic_ncols=True) as bar:
        each = [*{job.id: job for job in jobs.values()}.values()]  # two lanes may have one setting
        turns = [each] if timed else [[job] for job in each]
        work = Work(folder=options.runs)
        swept = Sweep(turns=turns, work=work, provenance=run_provenance(described), bar=bar, models=models).run()
    store = read_runs(options.runs)
    rows = {label: store.rows(job.id) for label, job in jobs.items()}
    notes = [f"{options.runs} had {run}." for run in swept.skipped]
    notes.append(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.")
    told = {
        "checkpoint": str(options.checkpoint),
        "baseline": options.baseline,
        "batch_size": batch_size,
        "max_new_tokens": options.max_new_tokens,
        "timed": timed,
        "runs": str(options.runs),
        "ids": [job.id for job in jobs.values()],
        **described,
    }
    first = next(iter(rows.values()))
    return Measured(rows=rows, baseline=first if specs[0].decoder == BASELINE else None, notes=notes, told=told)


def parsed(text: str, threshold: float | None, *, draft: bool = False) -> list[DecoderSpec]:
    """The decoders of a list such as "autoregressive,sliding_window@0.95", each once, the autoregressive one first.

    ValueError lists the valid words.
    """
    words = [word.strip() for word in text.split(",")]
    if GENERATE in words:
        raise ValueError(f"decoders must be decoders of ours, got {GENERATE}: `analysis bench` compares with it")
    specs = list(dict.fromkeys(parse_decoder_specs(word, threshold)[-1] for word in words))
    if not draft and (drafted := [spec for spec in specs if spec.drafted]):
        raise ValueError(f"{drafted[0].label} needs --draft SOURCE: a smaller checkpoint with the same vocabulary")
    return sorted(specs, key=lambda spec: spec.decoder != BASELINE)


def _jobs(
    options: argparse.Namespace,
    specs: list[DecoderSpec],
    questions: QuestionSet,
    models: Models,
    *,
    batch_size: int,
    chunk: int,
    timed: bool,
    task: str | None,
) -> dict[str, Job]:
    """The job of each lane, by its label."""
    options_of_key = ("dtype", "device", "base", "allow_other_base")
    own = ModelKey(checkpoint=options.checkpoint, **{name: getattr(options, name) for name in options_of_key})
    keys = {}
    for spec in specs:
        key = own
        if spec.drafted:
            key = ModelKey(**{**asdict(own), "draft": options.draft})
        elif spec.decoder == BASELINE and options.baseline is not None:
            key = ModelKey(**{**asdict(own), "checkpoint": options.baseline})
        keys[spec.label] = key
    described: dict[ModelKey, Mapping[str, Any]] = {}
    for spec in specs:
        key = keys[spec.label]
        checkpoint = models.get(key)
        check_runnable([spec], checkpoint.name, checkpoint.kinds, draft=key.draft is not None)
        if key not in described:
            check_fits(checkpoint, questions, options.max_new_tokens)
            described[key] = describe(key.checkpoint, key.base)
    base = DecodingSettings(
        block_size=models.get(own).usual_block_size, threshold=None, max_new_tokens=options.max_new_tokens
    )
    who = [(spec.label, described[keys[spec.label]]["fingerprint"], asdict(spec.settings(base))) for spec in specs]
    device = models.get(own).engine.device
    where = [models.get(own).dtype, torch.get_num_threads(), hardware(str(device))]  # two machines share no group
    digest = hashlib.sha256(json.dumps([who, questions.fields, batch_size, where], sort_keys=True).encode()).hexdigest()
    found = {}
    for spec in specs:
        key, checkpoint = keys[spec.label], models.get(keys[spec.label])
        setting = setting_of(
            described[key],
            spec.decoder,
            spec.settings(base),
            questions,
            draft=None if key.draft is None else describe(key.draft),
            batch_size=batch_size,
            dtype=checkpoint.dtype,
            device=device.type,
            group=f"{task or 'families'}/{digest[:10]}" if timed else None,
            label=f"{spec.label}-{task}" if task else None,
        )
        found[spec.label] = Job(
            setting=setting,
            settings=spec.settings(base),
            key=key,
            questions=questions,
            chunk=chunk,
            turns=questions.fields.get("judged", True),  # the figures of others are over questions
            origin=training_of(checkpoint),
        )
    return found
