"""`python -m analysis bench`: wall-clock speed of decoders against each other and against `generate`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from analysis.benches.bandwidth import Traffic
from analysis.benches.bench import BenchPlan, bench
from analysis.benches.report import to_dict, to_text
from analysis.benchmarks.questions import read_questions
from analysis.commands import add_json_option, print_json, step_times
from analysis.commands.bench_cases import Models, cases_of, llama_cpp_case
from analysis.commands.shared import DEFAULT_CHECKPOINT, described_run, machine, parse_sizes
from analysis.decoding.decoder_specs import (
    GENERATE,
    DecoderSpec,
    check_runnable,
    default_decoder_specs,
    parse_decoder_specs,
    parse_threshold,
)
from mars import decoders
from mars.config import DEFAULT_BLOCK_SIZE, DecodingSettings
from mars.options import SOURCES, add_base_options, add_device_options, add_invariant_option

HELP = "wall-clock speed of decoders against each other and against generate of transformers"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint", metavar="SOURCE", help=f"{SOURCES}, or an adapter (default: {DEFAULT_CHECKPOINT})")
    add_base_options(parser)
    add_invariant_option(parser)
    add("--ar", metavar="SOURCE", help="another checkpoint, decoded autoregressively as one more decoder")
    drafted = decoders.names(decoders.drafted())
    add("--draft", metavar="DIR", help=f"a smaller checkpoint with the same vocabulary, for {drafted}")
    add(
        "--decoders",
        action="append",
        metavar="A,B",
        help="decoders beside generate and autoregressive, such as sliding_window@0.9/b4, block_cached/c16, "
        "self_speculative/linear or jacobi/k4; may be given again (default: all that the checkpoint can run)",
    )
    add("--no-generate", dest="generate", action="store_false", help="leave out generate, which takes most of the time")
    add("--llama-cpp", metavar="SOURCE", help="also llama.cpp on this GGUF file or base by name, at batch size 1")
    add("--batch-sizes", default="1,4,8,16", metavar="N,N", help="rows that decode at once (default: 1,4,8,16)")
    add("--problems", type=int, default=8, metavar="N", help="held-out problems of each family (default: 8)")
    add("--questions", type=Path, metavar="FILE", help="first turns of a file in Spec-Bench's form instead of problems")
    add("--limit", type=int, metavar="N", help="with --questions: only the first N of each category")
    add("--repeats", type=int, default=5, metavar="N", help="rounds, at least 5 (default: 5)")
    add("--max-new-tokens", type=int, default=192, metavar="N", help="the most tokens to write (default: 192)")
    add("--seed", type=int, default=0, metavar="S", help="another seed takes other problems (default: 0)")
    add("--threshold", default="0.95", metavar="T", help="for decoders that name none (default: 0.95)")
    add_device_options(parser)
    add("--markdown", action="store_true", help="print Markdown instead of plain text")
    add_json_option(parser)
    step_times.add_options(parser)


def run(options: argparse.Namespace) -> None:
    """Measure and print the tables."""
    if options.shape or options.replay:
        step_times.run(options)
        return
    asked = () if options.questions is None else read_questions(options.questions, options.limit)
    plan = BenchPlan(
        problems=options.problems,
        questions=tuple(question.turns[0] for question in asked),
        seed=options.seed,
        batch_sizes=parse_sizes(options.batch_sizes),
        repeats=options.repeats,
    )
    if options.llama_cpp and plan.batch_sizes != (1,):
        raise ValueError(f"--llama-cpp takes one prompt at a time: --batch-sizes must be 1, got {options.batch_sizes}")
    decoders = None if options.decoders is None else ",".join(options.decoders)
    _check_settings(options, decoders)
    source = options.checkpoint or DEFAULT_CHECKPOINT
    models = Models.load(options, source)
    checkpoint, device = models.checkpoint, models.checkpoint.engine.device
    settings = _settings(options, checkpoint.usual_block_size)
    specs = [spec for spec in _specs(decoders, settings, models) if options.generate or spec.decoder != GENERATE]
    cases = cases_of(specs, models, settings, plan.prompts())
    if options.llama_cpp:
        cases.append(llama_cpp_case(options.llama_cpp, cases[0].prompts, settings))
    traffic = Traffic.of(models.plain, quantised=checkpoint.dtype == "int8")
    total = len(cases) * (plan.repeats + 1) * len(plan.batch_sizes)
    with tqdm(total=total, unit="round", file=sys.stderr) as bar:
        results = bench(cases, plan, traffic, bar.update)
    sys.stdout.write(to_text(results, plan, as_markdown=options.markdown) + "\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, device)}.\n")
    print_json(
        options,
        **to_dict(results, plan),
        checkpoint=str(source),
        ar=options.ar,
        draft=options.draft,
        llama_cpp=options.llama_cpp,
        questions=None if options.questions is None else str(options.questions),
        settings=asdict(settings),
        contestants={spec.label: dict(spec.changes) for spec in specs},
        traffic=asdict(traffic),
        **described_run(checkpoint.dtype, device),
    )


def _settings(options: argparse.Namespace, block_size: int = DEFAULT_BLOCK_SIZE) -> DecodingSettings:
    return DecodingSettings(
        block_size=block_size,
        threshold=parse_threshold(options.threshold),
        max_new_tokens=options.max_new_tokens,
    )


def _check_settings(options: argparse.Namespace, decoders: str | None) -> None:
    """Say what is wrong with the settings before any weights are read."""
    settings = _settings(options)
    if decoders is not None:
        for spec in parse_decoder_specs(decoders, settings.threshold):
            spec.settings(settings)


def _specs(text: str | None, settings: DecodingSettings, models: Models) -> list[DecoderSpec]:
    masks, draft = models.checkpoint.supports_masks, models.paired is not None
    if text is None:
        return default_decoder_specs(settings.threshold, masks=masks, draft=draft)
    specs = parse_decoder_specs(text, settings.threshold)
    check_runnable(specs, models.checkpoint.name, masks=masks, draft=draft)
    return specs
