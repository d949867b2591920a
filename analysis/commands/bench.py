"""`python -m analysis bench`: wall-clock speed of decoders against each other and against `generate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

import torch
from tqdm import tqdm

from analysis.benches.bench import BenchCase, Decode, bench
from analysis.benches.report import to_dict, to_text
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
from analysis.decoding.decoder_specs import (
    GENERATE,
    DecoderSpec,
    check_runnable,
    default_decoder_specs,
    parse_decoder_specs,
    parse_threshold,
)
from analysis.decoding.timed import Generate, Stopwatch, decode_timed
from analysis.decoding.timed import run as records_of
from mars import decoders
from mars.checkpoint.adapter import is_adapter, load_adapter, merge, weights_folder
from mars.checkpoint.checkpoint import Checkpoint, load_source, paired
from mars.checkpoint.sources import locate
from mars.checkpoint.weights import count_weights, load_model, load_tokenizer, read_config
from mars.config import DEFAULT_BLOCK_SIZE, DecodingSettings
from mars.decoding.base import check
from mars.engine import Engine
from mars.engine.backends import WARM_UPS
from mars.options import SOURCES, add_base_options, add_device_options

HELP = "wall-clock speed of decoders against each other and against generate of transformers"
FEWEST_ROUNDS = 5
"""Rounds that an interval needs."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint", default=DEFAULT_CHECKPOINT, metavar="SOURCE", help=f"{SOURCES}, or an adapter")
    add_base_options(parser)
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
    add("--batch-sizes", default="1,4,8,16", metavar="N,N", help="rows that decode at once (default: 1,4,8,16)")
    add_prompt_options(parser, problems=8)
    add("--repeats", type=int, default=5, metavar="N", help="rounds, at least 5 (default: 5)")
    add_device_options(parser)
    add("--markdown", action="store_true", help="print Markdown instead of plain text")
    add_json_option(parser)


def run(options: argparse.Namespace) -> None:
    """Measure and print the tables."""
    texts, what = prompts_of(options)
    sizes = parse_sizes(options.batch_sizes)
    if min(sizes) < 1 or max(sizes) > len(texts) or len(set(sizes)) < len(sizes):
        rule = f"from 1 to the {len(texts)} prompts, each once"
        raise ValueError(f"batch sizes must be {rule}, got {options.batch_sizes}")
    if options.repeats < FEWEST_ROUNDS:
        raise ValueError(f"repeats must be >= {FEWEST_ROUNDS}, got {options.repeats}: fewer give no interval")
    named = None if options.decoders is None else ",".join(options.decoders)
    settings = _settings(options, DEFAULT_BLOCK_SIZE)
    for spec in parse_decoder_specs(named, settings.threshold) if named else ():
        spec.settings(settings)  # says what is wrong before any weights are read
    checkpoint = load_source(options.checkpoint, options)
    device, settings = checkpoint.engine.device, _settings(options, checkpoint.usual_block_size)
    specs = _specs(named, settings, checkpoint, draft=options.draft is not None)
    cases = cases_of(specs, checkpoint, settings, texts, options)
    # On a GPU even a shape that is met once a round is captured before the rounds that count.
    uncounted = 1 + WARM_UPS if checkpoint.engine.static_shapes else 1
    with tqdm(total=len(cases) * (options.repeats + uncounted) * len(sizes), unit="round", file=sys.stderr) as bar:
        results = bench(cases, sizes, options.repeats, bar.update, uncounted)
    sys.stdout.write(f"{to_text(results, as_markdown=options.markdown)}\n")
    sys.stdout.write(f"{len(texts)} {what}, {options.repeats} rounds after {uncounted} uncounted.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, device)}.\n")
    print_json(
        options,
        **to_dict(results),
        **{name: getattr(options, name) for name in ("checkpoint", "draft", "problems", "seed")},
        parameters=count_weights(read_config(weights_folder(options.checkpoint, options.base))[1]),
        repeats=options.repeats,
        batch_sizes=list(sizes),
        questions=options.questions and str(options.questions),
        settings=asdict(settings),
        contestants={spec.label: dict(spec.changes) for spec in specs},
        **described_run(checkpoint.dtype, device),
    )


def _settings(options: argparse.Namespace, block_size: int) -> DecodingSettings:
    return DecodingSettings(
        block_size=block_size,
        threshold=parse_threshold(options.threshold),
        max_new_tokens=options.max_new_tokens,
    )


def _specs(named: str | None, settings: DecodingSettings, checkpoint: Checkpoint, *, draft: bool) -> list[DecoderSpec]:
    if named is None:
        return default_decoder_specs(settings.threshold, masks=checkpoint.supports_masks, draft=draft)
    specs = parse_decoder_specs(named, settings.threshold)
    check_runnable(specs, checkpoint.name, checkpoint.kinds, draft=draft)
    return specs


def cases_of(
    specs: Sequence[DecoderSpec],
    checkpoint: Checkpoint,
    settings: DecodingSettings,
    texts: Sequence[str],
    options: argparse.Namespace,
) -> list[BenchCase]:
    """One case per spec; ValueError where a prompt does not fit the context of a model, or a source cannot be read."""
    prompts = _prompts(checkpoint, texts, settings)
    engine = checkpoint.engine
    pair = paired(checkpoint, load_source(options.draft, options)).engine if options.draft else engine
    cases = []
    for spec in specs:
        if spec.decoder == GENERATE:
            if not options.generate:
                continue
            decode = _generate(checkpoint, settings, options)
        else:
            decode = _decoding(pair if spec.drafted else engine, spec.decoder, spec.settings(settings))
        cases.append(BenchCase(label=spec.label, decode=decode, prompts=prompts, lossless=spec.lossless))
    return cases


def _generate(checkpoint: Checkpoint, settings: DecodingSettings, options: argparse.Namespace) -> Decode:
    """`generate` on the weights of the checkpoint, an adapter merged into its base, as a model of its own."""
    (own, _), folder = locate(options.checkpoint), weights_folder(options.checkpoint, options.base)
    engine, dtype = checkpoint.engine, getattr(torch, checkpoint.dtype)
    model = load_model(folder, *read_config(folder), torch.float32 if is_adapter(own) else dtype)
    if is_adapter(own):
        merge(model, load_tokenizer(folder), load_adapter(own))  # in float32, as `load_checkpoint` does
    model = model.to(engine.device, dtype)
    generate = Generate(model, engine.stop_token_ids, settings.max_new_tokens)
    watch = Stopwatch.of(engine.device)
    return lambda prompts, places: generate.timed(prompts, places, watch)


def _decoding(engine: Engine, decoder: str, settings: DecodingSettings) -> Decode:
    watch = Stopwatch.of(engine.device)
    return lambda prompts, places: decode_timed(
        lambda rows: records_of(engine, decoder, settings, rows, places), prompts, watch
    )


def _prompts(checkpoint: Checkpoint, texts: Sequence[str], settings: DecodingSettings) -> list[list[int]]:
    prompts = [checkpoint.encode(text) for text in texts]
    check(checkpoint.engine, prompts, settings)  # generate would only warn of what does not fit the context
    return prompts
