"""`python -m analysis agree`: checks that self_speculative writes the text of autoregressive; exit code 1 if not.

With --questions it and other decoders are compared with a reference on the base instead: `generate` of transformers, or
our own AR decoding of one prompt at a time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast, get_args

from tqdm import tqdm

from analysis.benchmarks.against_reference import NEAR_TIE, Comparison, Reference, compare
from analysis.benchmarks.lanes import BenchmarkLane, check_fits, described, lanes_of, parse_decoders
from analysis.benchmarks.questions import Question, fingerprint, read_questions
from analysis.commands import add_json_option, print_json
from analysis.commands.shared import DEFAULT_CHECKPOINT, described_run, machine, parse_sizes
from analysis.decoding.answers import texts
from analysis.decoding.decoder_specs import BASELINE, GENERATE
from analysis.decoding.timed import Generate
from analysis.evaluations.agreement import LARGEST_GAP, Agreement, agreements
from analysis.evaluations.evaluate import Plan
from analysis.harness.journal import Journal
from analysis.text_table import Columns, aligned, table_of
from mars.checkpoint import Checkpoint
from mars.checkpoint.checkpoint import load_source
from mars.config import DTYPES, DecodingSettings, LayoutName
from mars.decoders import EXACT
from mars.engine import ModelEngine
from mars.options import add_base_options, add_device_options, add_invariant_option, add_setting
from mars.provenance import commit
from mars.tasks import TASKS

HELP = "whether self_speculative writes what autoregressive writes"
SHOWN = 20
NOTE = (
    f"Identical = texts with the very tokens of {BASELINE} at the first batch size. Best token = tokens that no other\n"
    "beats when the model reads prompt and text in one pass; gap = the best token's log-probability minus that of the\n"
    "token written (nats). "
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint", default=DEFAULT_CHECKPOINT, metavar="SOURCE", help=f"default: {DEFAULT_CHECKPOINT}")
    add_base_options(parser)
    add_invariant_option(parser)
    add("--problems", type=int, default=50, metavar="N", help="held-out problems of each family (default: 50)")
    add("--seed", type=int, default=0, metavar="S", help="another seed takes other problems (default: 0)")
    add("--batch-sizes", default="1,8", metavar="N,N", help="rows that decode at once (default: 1,8)")
    add(
        "--layouts", default="linear,quadratic,lookup,auto", metavar="A,B", help="default: linear,quadratic,lookup,auto"
    )
    add_setting(parser, "max_new_tokens")
    add(
        "--dtype",
        default="float32",
        choices=DTYPES,
        help="float32, and bfloat16 with invariant passes: every text must be identical; else no gap may be wide "
        "(default: float32)",
    )
    add_device_options(parser, dtype=False)
    add(
        "--questions",
        type=Path,
        metavar="FILE",
        help="compare decoders with a reference, on the first turns of a file in Spec-Bench's format",
    )
    add(
        "--reference",
        default=GENERATE,
        choices=(GENERATE, BASELINE),
        help="with --questions: generate of transformers, or our own AR, one prompt at a time (default: generate)",
    )
    add("--against", metavar="SOURCE", help="with --questions: the reference's checkpoint (default: --checkpoint)")
    add("--decoders", metavar="A,B", help=f"with --questions (default: {BASELINE} and self_speculative in each layout)")
    add("--limit", type=int, metavar="N", help="with --questions: only the first N of each category")
    add("--journal", type=Path, metavar="DIR", help="with --questions: folder from which an interrupted run resumes")
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Compare and print the table."""
    if options.questions is not None:
        return _against_reference(options)
    plan = Plan(problems=options.problems, seed=options.seed)
    layouts, batch_sizes = _parse_layouts(options.layouts), parse_sizes(options.batch_sizes)
    DecodingSettings(max_new_tokens=options.max_new_tokens)
    checkpoint = load_source(options.checkpoint, options)
    settings = DecodingSettings(block_size=checkpoint.usual_block_size, max_new_tokens=options.max_new_tokens)
    prompts = [checkpoint.encode(problem.prompt) for problem in plan.in_turn()]
    with tqdm(total=(1 + len(layouts)) * len(batch_sizes), unit="run", file=sys.stderr) as bar:
        found = list(agreements(checkpoint.engine, prompts, settings, layouts, batch_sizes, bar.update))
    same_bits = _invariant(checkpoint)
    holds = all(agreement.holds(options.dtype, same_bits=same_bits) for agreement in found)
    where = machine(checkpoint.dtype, checkpoint.engine.device)
    sys.stdout.write(f"{table_of(found, COLUMNS)}\n\n{_summary(found, options.dtype, same_bits=same_bits)}\n{NOTE}")
    sys.stdout.write(f"{len(prompts)} held-out problems, seed {plan.seed}.\n{checkpoint.name}, {where}.\n")
    print_json(
        options,
        holds=holds,
        results=[_described(agreement, options.dtype, same_bits=same_bits) for agreement in found],
        invariant=same_bits,
        checkpoint=str(options.checkpoint),
        settings={"block_size": settings.block_size, "max_new_tokens": settings.max_new_tokens},
        problems=plan.problems,
        tasks=list(TASKS),
        seed=plan.seed,
        largest_gap_allowed=LARGEST_GAP,
        **described_run(checkpoint.dtype, checkpoint.engine.device),
    )
    return 0 if holds else 1


def _parse_layouts(text: str) -> tuple[LayoutName, ...]:
    """Names of layouts, each once.

    Raises:
        ValueError: lists them.
    """
    words, choices = tuple(word.strip() for word in text.split(",")), get_args(LayoutName)
    if not set(words) <= set(choices) or len(set(words)) < len(words):
        raise ValueError(f"layouts must be some of {', '.join(choices)}, each once, got {text!r}")
    return cast(tuple[LayoutName, ...], words)


def _label(agreement: Agreement) -> str:
    return BASELINE if agreement.layout is None else f"{EXACT}/{agreement.layout}"


COLUMNS: Columns[Agreement] = (
    ("decoder", _label),
    ("batch size", lambda each: str(each.batch_size)),
    ("identical", lambda each: f"{each.identical}/{each.n}"),
    ("tokens", lambda each: str(each.tokens)),
    ("best token", lambda each: f"{each.best / each.tokens:.3%}"),
    ("largest gap", lambda each: f"{each.largest_gap:.2g}"),
    (f"gaps > {LARGEST_GAP}", lambda each: str(each.wide)),
)


def _summary(found: Sequence[Agreement], dtype: str, *, same_bits: bool) -> str:
    broken = [agreement for agreement in found if not agreement.holds(dtype, same_bits=same_bits)]
    names = "; ".join(f"{_label(agreement)} at batch size {agreement.batch_size}" for agreement in broken)
    if dtype == "float32" or same_bits:
        return f"NOT exact: {names}." if broken else "Exact: every text is identical."
    if broken:
        return f"NOT exact: gaps above {LARGEST_GAP} in {names}."
    return f"As exact as {dtype} allows: no gap of {EXACT} is above {LARGEST_GAP}."


def _described(agreement: Agreement, dtype: str, *, same_bits: bool) -> dict[str, object]:
    holds = agreement.holds(dtype, same_bits=same_bits)
    return {"decoder": _label(agreement), **asdict(agreement), "holds": holds}


COLUMNS_AGAINST: Columns[Comparison] = (
    ("decoder", lambda each: each.label),
    ("batch size", lambda each: str(each.batch_size)),
    ("identical", lambda each: f"{each.identical}/{each.n}"),
    ("tokens", lambda each: str(each.tokens)),
    ("largest gap", lambda each: f"{max((difference.gap for difference in each.differences), default=0):.2g}"),
    (f"gaps > {NEAR_TIE}", lambda each: str(each.wide)),
)


def _against_reference(options: argparse.Namespace) -> int:
    """Compare with the reference and print the table and the differences; 1 if texts differ that must be the same."""
    layouts, batch_sizes = _parse_layouts(options.layouts), parse_sizes(options.batch_sizes)
    questions = read_questions(options.questions, options.limit)
    text = options.decoders or ",".join([BASELINE, *(f"self_speculative/{layout}" for layout in layouts)])
    specs = parse_decoders(text, None)
    DecodingSettings(max_new_tokens=options.max_new_tokens)
    checkpoint = load_source(options.checkpoint, options)
    base = load_source(options.against or options.checkpoint, options)
    reference = _reference(options, base, checkpoint)
    lanes = lanes_of(specs, checkpoint, described(options.checkpoint, checkpoint), options.max_new_tokens)
    check_fits(checkpoint, [question.first_turn for question in questions], options.max_new_tokens)
    with _journal(options, lanes, questions) as journal:
        total = len(questions) * (1 + len(lanes) * len(batch_sizes))
        with tqdm(total=total, unit="text", file=sys.stderr) as bar:
            found = list(compare(reference, lanes, questions, batch_sizes, journal, bar.update))
        journal.remove()
    same_bits = options.reference == BASELINE and _invariant(base) and _invariant(checkpoint)
    must_agree = options.dtype == "float32" or same_bits
    holds = not must_agree or not any(each.differences for each in found)
    told = _differences(found, options.reference, must_agree=must_agree)
    sys.stdout.write(f"{table_of(found, COLUMNS_AGAINST)}\n\n{told}\n{_listed(found)}")
    sys.stdout.write(f"{len(questions)} first turns of {options.questions}, {options.reference} with {base.name}.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    print_json(
        options,
        holds=holds,
        results=[asdict(each) | {"identical": each.identical, "wide": each.wide} for each in found],
        checkpoint=str(options.checkpoint),
        reference=options.reference,
        against=options.against,
        questions=str(options.questions),
        limit=options.limit,
        max_new_tokens=options.max_new_tokens,
        near_tie=NEAR_TIE,
        invariant=_invariant(checkpoint),
        **described_run(checkpoint.dtype, checkpoint.engine.device),
    )
    return 0 if holds else 1


def _invariant(checkpoint: Checkpoint) -> bool:
    """Whether the logits of a token are the same whatever shares its pass."""
    return isinstance(checkpoint.engine, ModelEngine) and checkpoint.engine.invariant


def _reference(options: argparse.Namespace, base: Checkpoint, checkpoint: Checkpoint) -> Reference:
    if options.reference == BASELINE:
        settings = DecodingSettings(max_new_tokens=options.max_new_tokens)
        return partial(texts, base.engine, BASELINE, settings, places=1)
    if not isinstance(base.engine, ModelEngine):
        raise ValueError(f"generate needs a model of transformers, got {base.name}")
    return Generate(base.engine.model, checkpoint.engine.stop_token_ids, options.max_new_tokens).texts


def _journal(options: argparse.Namespace, lanes: Sequence[BenchmarkLane], questions: Sequence[Question]) -> Journal:
    """The journal of this very comparison by this very code in the folder of --journal, or one in memory."""
    if options.journal is None:
        return Journal()
    who = [(lane.label, lane.model["fingerprint"], asdict(lane.settings)) for lane in lanes]
    how = [options.reference, options.against, options.base, options.dtype, options.invariant, options.batch_sizes]
    told = json.dumps([who, how, fingerprint(questions), commit()])
    return Journal(options.journal / f".agree-{hashlib.sha256(told.encode()).hexdigest()[:10]}.jsonl")


def _differences(found: Sequence[Comparison], reference: str, *, must_agree: bool) -> str:
    differing = sum(len(each.differences) for each in found)
    if not differing:
        return f"Exact: every text is that of {reference}."
    if must_agree:
        return f"NOT exact: {differing} texts differ from those of {reference}."
    wide = sum(each.wide for each in found)
    return f"{differing} texts differ from those of {reference}, {differing - wide} of them at a near-tie."


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
