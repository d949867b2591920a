"""`python -m analysis agree`: what decoders write against one-token mode or `generate`; exit code 1 if an exact one
writes another text.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tqdm import tqdm

from analysis.benchmarks.agreement import WIDE, Agreement, Judge
from analysis.commands.lanes import parsed
from analysis.commands.shared import (
    DEFAULT_CHECKPOINT,
    add_json_option,
    add_prompt_options,
    described_run,
    machine,
    parse_sizes,
    print_json,
    prompts_of,
)
from analysis.decoding.answers import texts
from analysis.decoding.decoder_specs import BASELINE, GENERATE, check_runnable, parse_threshold
from analysis.decoding.timed import Generate
from analysis.text_table import Columns, table_of
from mars.checkpoint import Checkpoint
from mars.checkpoint.checkpoint import load_source
from mars.config import DTYPES, DecodingSettings
from mars.decoders import EXACT
from mars.decoding.base import check
from mars.engine import ModelEngine
from mars.options import add_base_options, add_device_options

HELP = "how many texts and tokens of decoders are those of one-token mode; fails if exact decoding is not exact"
DECODERS = ",".join([BASELINE, *(f"{EXACT}/{layout}" for layout in ("linear", "quadratic", "lookup", "auto"))])
COLUMNS: Columns[Agreement] = (
    ("decoder", lambda each: each.label),
    ("batch size", lambda each: str(each.batch_size)),
    ("identical", lambda each: f"{each.identical}/{each.n}"),
    ("tokens", lambda each: str(each.tokens)),
    ("agreeing", lambda each: f"{each.share.value:.3%} [{each.share.low:.3%}, {each.share.high:.3%}]"),
    (f"gaps > {WIDE}", lambda each: str(each.wide)),
    ("largest gap", lambda each: f"{each.largest_gap:.2g}"),
)
NOTE = (
    "Identical = texts with the very tokens of the reference. Agreeing = tokens that one-token mode writes behind the\n"
    "same prefix, 95 % interval over prompts; gap = how far a token is below the best one there (nats).\n"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint", default=DEFAULT_CHECKPOINT, metavar="SOURCE", help=f"default: {DEFAULT_CHECKPOINT}")
    add_base_options(parser)
    add("--against", metavar="SOURCE", help="the reference's checkpoint (default: that of --checkpoint)")
    add(
        "--reference",
        default=BASELINE,
        choices=(BASELINE, GENERATE),
        help="what writes the reference's texts, one prompt at a time: our own AR, the default, or generate",
    )
    add("--decoders", default=DECODERS, metavar="A,B", help=f"default: {DECODERS}")
    add_prompt_options(parser, problems=50)
    add("--batch-sizes", default="1,8", metavar="N,N", help="rows that decode at once (default: 1,8)")
    add(
        "--dtype",
        default="float32",
        choices=DTYPES,
        help="float32, and bfloat16 with invariant passes: every text must be identical; else no gap may be wide "
        "(default: float32)",
    )
    add_device_options(parser, dtype=False)
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Compare and print the table."""
    specs, sizes = parsed(options.decoders, parse_threshold(options.threshold)), parse_sizes(options.batch_sizes)
    asked, what = prompts_of(options)
    DecodingSettings(max_new_tokens=options.max_new_tokens)
    checkpoint = load_source(options.checkpoint, options)
    check_runnable(specs, checkpoint.name, checkpoint.kinds)
    base = load_source(options.against, options) if options.against else checkpoint
    settings = DecodingSettings(block_size=checkpoint.usual_block_size, max_new_tokens=options.max_new_tokens)
    engine, prompts = checkpoint.engine, [checkpoint.encode(text) for text in asked]
    check(engine, prompts, settings)
    judge = Judge(base.engine, prompts, _reference(options, base, checkpoint, prompts))
    agreements = []
    with tqdm(total=len(specs) * len(sizes), unit="run", file=sys.stderr) as bar:
        for size in sizes:
            for spec in specs:
                written = texts(engine, spec.decoder, spec.settings(settings), prompts, size)
                agreements.append(judge.agreement(spec.label, size, written, lossless=spec.lossless))
                bar.update()
    same_bits = options.dtype == "float32" or (
        options.reference == BASELINE and _invariant(base) and _invariant(checkpoint)
    )
    broken = [each for each in agreements if not each.holds(same_bits=same_bits)]
    told = "; ".join(f"{each.label} at batch size {each.batch_size}" for each in broken)
    rule = "every text of an exact decoder is identical" if same_bits else f"no gap of an exact decoder is above {WIDE}"
    sys.stdout.write(f"{table_of(agreements, COLUMNS)}\n\n{f'NOT exact: {told}' if broken else f'Exact: {rule}'}.\n")
    sys.stdout.write(f"{NOTE}{len(prompts)} {what}; {options.reference} with {base.name}.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, engine.device)}.\n")
    names = ("checkpoint", "against", "reference", "limit", "problems", "seed", "max_new_tokens")
    print_json(
        options,
        holds=not broken,
        results=[{**asdict(each), "holds": each.holds(same_bits=same_bits)} for each in agreements],
        invariant=_invariant(checkpoint),
        questions=options.questions and str(options.questions),
        **{name: getattr(options, name) for name in names},
        **described_run(checkpoint.dtype, engine.device),
    )
    return 1 if broken else 0


def _invariant(checkpoint: Checkpoint) -> bool:
    """Whether the logits of a token are the same whatever shares its pass."""
    return isinstance(checkpoint.engine, ModelEngine) and checkpoint.engine.invariant


def _reference(
    options: argparse.Namespace, base: Checkpoint, checkpoint: Checkpoint, prompts: Sequence[Sequence[int]]
) -> Sequence[tuple[int, ...]]:
    """The texts of the reference."""
    if options.reference == BASELINE:
        settings = DecodingSettings(max_new_tokens=options.max_new_tokens)
        return texts(base.engine, BASELINE, settings, prompts, 1)
    if not isinstance(base.engine, ModelEngine):
        raise ValueError(f"generate needs a model of transformers, got {base.name}")
    generate = Generate(base.engine.model, checkpoint.engine.stop_token_ids, options.max_new_tokens)
    return [generate.texts([prompt])[0] for prompt in prompts]
