"""`python -m analysis agree --questions FILE`: our decoders against `generate` of transformers on the base."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from analysis.benchmarks.against_generate import NEAR_TIE, Comparison, compare
from analysis.benchmarks.lanes import BenchmarkLane, check_fits, described, lanes_of, parse_decoders
from analysis.benchmarks.questions import Question, fingerprint, read_questions
from analysis.commands import print_json
from analysis.commands.shared import described_run, machine
from analysis.decoding.decoder_specs import BASELINE
from analysis.decoding.timed import Generate
from analysis.harness.journal import Journal
from analysis.text_table import Columns, aligned, table_of
from mars.checkpoint.loading import load_source
from mars.config import DecodingSettings
from mars.engine import ModelEngine

SHOWN = 20
COLUMNS: Columns[Comparison] = (
    ("decoder", lambda each: each.label),
    ("batch size", lambda each: str(each.batch_size)),
    ("identical", lambda each: f"{each.identical}/{each.n}"),
    ("tokens", lambda each: str(each.tokens)),
    ("largest gap", lambda each: f"{max((difference.gap for difference in each.differences), default=0):.2g}"),
    (f"gaps > {NEAR_TIE}", lambda each: str(each.wide)),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that belong to --questions."""
    add = parser.add_argument
    add(
        "--questions",
        type=Path,
        metavar="FILE",
        help="compare decoders with generate of transformers, on the first turns of a file in Spec-Bench's format",
    )
    add("--against", metavar="SOURCE", help="with --questions: generate's checkpoint (default: that of --checkpoint)")
    add("--decoders", metavar="A,B", help=f"with --questions (default: {BASELINE} and self_speculative in each layout)")
    add("--limit", type=int, metavar="N", help="with --questions: only the first N of each category")
    add("--journal", type=Path, metavar="DIR", help="with --questions: folder from which an interrupted run resumes")


def run(options: argparse.Namespace, layouts: Sequence[str], batch_sizes: Sequence[int]) -> int:
    """Compare and print the table and the differences; returns the exit code: 1 for a difference in float32."""
    questions = read_questions(options.questions, options.limit)
    text = options.decoders or ",".join([BASELINE, *(f"self_speculative/{layout}" for layout in layouts)])
    specs = parse_decoders(text, None)
    DecodingSettings(max_new_tokens=options.max_new_tokens)
    checkpoint = load_source(options.checkpoint, options)
    base = load_source(options.against or options.checkpoint, options)
    if not isinstance(base.engine, ModelEngine):
        raise ValueError(f"generate needs a model of transformers, got {base.name}")
    lanes = lanes_of(specs, checkpoint, described(options.checkpoint, checkpoint), options.max_new_tokens)
    check_fits(checkpoint, [question.first_turn for question in questions], options.max_new_tokens)
    generate = Generate(base.engine.model, checkpoint.engine.stop_token_ids, options.max_new_tokens)
    with _journal(options, lanes, questions) as journal:
        total = len(questions) * (1 + len(lanes) * len(batch_sizes))
        with tqdm(total=total, unit="text", file=sys.stderr) as bar:
            found = list(compare(generate, lanes, questions, batch_sizes, journal, bar.update))
        journal.remove()
    holds = options.dtype != "float32" or not any(each.differences for each in found)
    sys.stdout.write(f"{table_of(found, COLUMNS)}\n\n{_summary(found, options.dtype)}\n{_listed(found)}")
    sys.stdout.write(f"{len(questions)} first turns of {options.questions}, generate with {base.name}.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    print_json(
        options,
        holds=holds,
        results=[asdict(each) | {"identical": each.identical, "wide": each.wide} for each in found],
        checkpoint=str(options.checkpoint),
        against=options.against,
        questions=str(options.questions),
        limit=options.limit,
        max_new_tokens=options.max_new_tokens,
        near_tie=NEAR_TIE,
        **described_run(checkpoint.dtype, checkpoint.engine.device),
    )
    return 0 if holds else 1


def _journal(options: argparse.Namespace, lanes: Sequence[BenchmarkLane], questions: Sequence[Question]) -> Journal:
    """The journal of this very comparison in the folder of --journal, or one in memory."""
    if options.journal is None:
        return Journal()
    who = [(lane.label, lane.model["fingerprint"], asdict(lane.settings)) for lane in lanes]
    told = json.dumps([who, options.against, options.dtype, options.batch_sizes, fingerprint(questions)])
    return Journal(options.journal / f".agree-{hashlib.sha256(told.encode()).hexdigest()[:10]}.jsonl")


def _summary(found: Sequence[Comparison], dtype: str) -> str:
    differing = sum(len(each.differences) for each in found)
    if not differing:
        return "Exact: every text is that of generate."
    if dtype == "float32":
        return f"NOT exact: {differing} texts differ from those of generate."
    wide = sum(each.wide for each in found)
    return f"{differing} texts differ from those of generate, {differing - wide} of them at a near-tie."


def _listed(found: Sequence[Comparison]) -> str:
    """The differences, the widest first."""
    lines: list[tuple[str, ...]] = [
        ("decoder", "batch size", "question", "token", "ours", "theirs", "gap of the two best logits")
    ]
    pairs = [(each, difference) for each in found for difference in each.differences]
    for each, difference in sorted(pairs, key=lambda pair: -pair[1].gap)[:SHOWN]:
        ids = ("end" if token is None else str(token) for token in (difference.ours, difference.theirs))
        where = str(each.batch_size), str(difference.question), str(difference.token)
        lines.append((each.label, *where, *ids, f"{difference.gap:.3g}"))
    more = f"and {len(pairs) - SHOWN} more\n" if len(pairs) > SHOWN else ""
    return f"\n{aligned(lines)}\n{more}\n" if pairs else "\n"
