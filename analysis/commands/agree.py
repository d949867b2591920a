"""`python -m analysis agree`: checks that self_speculative writes the text of autoregressive; exit code 1 if not.

With --questions it and other decoders are compared with `generate` of transformers instead (agree_questions.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import cast, get_args

from tqdm import tqdm

from analysis.commands import add_json_option, agree_questions, print_json
from analysis.commands.shared import DEFAULT_CHECKPOINT, described_run, machine, parse_sizes
from analysis.decoding.decoder_specs import BASELINE
from analysis.evaluations.agreement import LARGEST_GAP, Agreement, agreements
from analysis.evaluations.evaluate import Plan
from analysis.text_table import Columns, table_of
from mars.checkpoint.loading import load_source
from mars.config import DTYPES, DecodingSettings, LayoutName
from mars.decoders import EXACT
from mars.options import add_base_options, add_device_options, add_invariant_option
from mars.tasks import TASKS

HELP = "whether self_speculative writes what autoregressive writes"
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
    add("--max-new-tokens", type=int, default=192, metavar="N", help="the most tokens to write (default: 192)")
    add(
        "--dtype",
        default="float32",
        choices=DTYPES,
        help="float32: every text must be identical; bfloat16: no gap may be wide (default: float32)",
    )
    add_device_options(parser, dtype=False)
    agree_questions.add_options(parser)
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Compare and print the table."""
    if options.questions is not None:
        return agree_questions.run(options, _parse_layouts(options.layouts), parse_sizes(options.batch_sizes))
    plan = Plan(problems=options.problems, seed=options.seed)
    layouts, batch_sizes = _parse_layouts(options.layouts), parse_sizes(options.batch_sizes)
    DecodingSettings(max_new_tokens=options.max_new_tokens)
    checkpoint = load_source(options.checkpoint, options)
    settings = DecodingSettings(block_size=checkpoint.usual_block_size, max_new_tokens=options.max_new_tokens)
    prompts = [checkpoint.encode(problem.prompt) for problem in plan.in_turn()]
    with tqdm(total=(1 + len(layouts)) * len(batch_sizes), unit="run", file=sys.stderr) as bar:
        found = list(agreements(checkpoint.engine, prompts, settings, layouts, batch_sizes, bar.update))
    holds = all(agreement.holds(options.dtype) for agreement in found)
    where = machine(checkpoint.dtype, checkpoint.engine.device)
    sys.stdout.write(f"{table_of(found, COLUMNS)}\n\n{_summary(found, options.dtype)}\n{NOTE}")
    sys.stdout.write(f"{len(prompts)} held-out problems, seed {plan.seed}.\n{checkpoint.name}, {where}.\n")
    print_json(
        options,
        holds=holds,
        results=[_described(agreement, options.dtype) for agreement in found],
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


def _summary(found: Sequence[Agreement], dtype: str) -> str:
    broken = [agreement for agreement in found if not agreement.holds(dtype)]
    names = "; ".join(f"{_label(agreement)} at batch size {agreement.batch_size}" for agreement in broken)
    if dtype == "float32":
        return f"NOT exact: {names}." if broken else "Exact: every text is identical."
    if broken:
        return f"NOT exact: gaps above {LARGEST_GAP} in {names}."
    return f"As exact as {dtype} allows: no gap of {EXACT} is above {LARGEST_GAP}."


def _described(agreement: Agreement, dtype: str) -> dict[str, object]:
    return {"decoder": _label(agreement), **asdict(agreement), "holds": agreement.holds(dtype)}
