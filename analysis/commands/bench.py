"""`python -m analysis bench`: wall-clock speed of decoders against each other and against `generate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from analysis.benches.bandwidth import Traffic
from analysis.benches.bench import BenchCase, BenchPlan, Decode, bench
from analysis.benches.report import to_dict, to_text
from analysis.benchmarks.questions import read_questions
from analysis.commands import add_json_option, print_json, step_times
from analysis.commands.shared import DEFAULT_CHECKPOINT, described_run, machine, parse_sizes
from analysis.decoding.decoder_specs import (
    BASELINE,
    GENERATE,
    DecoderSpec,
    check_runnable,
    default_decoder_specs,
    parse_decoder_specs,
    parse_threshold,
)
from analysis.decoding.llama_cpp import LLAMA_CPP, LlamaCpp
from analysis.decoding.timed import Generate, Stopwatch, decode_timed, is_continuous
from analysis.decoding.timed import run as records_of
from mars import decoders
from mars.checkpoint.adapter import weights_folder
from mars.checkpoint.checkpoint import Checkpoint, load_source, paired
from mars.checkpoint.sources import NAMED_BASES
from mars.checkpoint.weights import load_model, read_config
from mars.config import DEFAULT_BLOCK_SIZE, DecodingSettings
from mars.decoding.base import check
from mars.engine import Engine
from mars.engine.graphs import WARM_UPS
from mars.options import SOURCES, add_base_options, add_device_options, add_invariant_option, add_setting

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
    add_setting(parser, "max_new_tokens")
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
    if models.checkpoint.engine.static_shapes:  # even a shape that is met once a round is then captured before
        plan = replace(plan, uncounted=1 + WARM_UPS)
    settings = _settings(options, checkpoint.usual_block_size)
    specs = [spec for spec in _specs(decoders, settings, models) if options.generate or spec.decoder != GENERATE]
    cases = cases_of(specs, models, settings, plan.prompts())
    if options.llama_cpp:
        cases.append(llama_cpp_case(options.llama_cpp, cases[0].prompts, settings))
    traffic = Traffic.of(models.plain, quantised=checkpoint.dtype == "int8")
    total = len(cases) * (plan.repeats + plan.uncounted) * len(plan.batch_sizes)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of a benchmark: the checkpoint; its weights or its base's as a separate model for transformers; a
    second AR checkpoint; the pair with its draft.
    """

    checkpoint: Checkpoint
    plain: PreTrainedModel
    other: Checkpoint | None = None
    paired: Checkpoint | None = None

    @classmethod
    def load(cls, options: argparse.Namespace, source: str) -> Models:
        """The models that --ar and --draft ask for beside the checkpoint `source`.

        Raises:
            ValueError: one sentence about the option or file at fault.
        """
        checkpoint = load_source(source, options)
        folder = weights_folder(source, getattr(options, "base", None))
        plain = load_model(folder, *read_config(folder), getattr(torch, checkpoint.dtype))
        return cls(
            checkpoint=checkpoint,
            plain=plain.to(checkpoint.engine.device),
            other=load_source(options.ar, options) if options.ar else None,
            paired=paired(checkpoint, load_source(options.draft, options)) if options.draft else None,
        )


def cases_of(
    specs: Sequence[DecoderSpec], models: Models, settings: DecodingSettings, texts: Sequence[str]
) -> list[BenchCase]:
    """One case per spec, and one for the second AR checkpoint.

    Raises:
        ValueError: a prompt does not fit the context of a model.
    """
    prompts = _prompts(models.checkpoint, texts, settings)
    found = [
        BenchCase(
            label=spec.label,
            decode=_decoding(spec, models, settings),
            prompts=prompts,
            lossless=spec.lossless,
            continuous=is_continuous(spec.decoder),
        )
        for spec in specs
    ]
    if models.other is not None:
        found.append(
            BenchCase(
                label=f"{BASELINE} on {models.other.name}",
                decode=_with_decoder(models.other.engine, BASELINE, settings),
                prompts=_prompts(models.other, texts, settings),
                comparable=False,
                continuous=True,
            )
        )
    return found


def llama_cpp_case(source: str, prompts: Sequence[Sequence[int]], settings: DecodingSettings) -> BenchCase:
    """llama.cpp on a GGUF file or a base by name, which gets the same token ids and as many threads as torch has.

    Raises:
        ValueError: one sentence: it is not installed, or the file is not there.
    """
    named = NAMED_BASES.get(source)
    file = (named.file() if named is not None else None) or Path(source).expanduser()
    context = max(map(len, prompts)) + settings.max_new_tokens + 1
    baseline = LlamaCpp(file, torch.get_num_threads(), context, settings.max_new_tokens)
    return BenchCase(label=LLAMA_CPP, decode=lambda rows, _: baseline.timed(rows), prompts=prompts, comparable=False)


def _decoding(spec: DecoderSpec, models: Models, settings: DecodingSettings) -> Decode:
    engine = models.checkpoint.engine
    if spec.decoder == GENERATE:
        watch = Stopwatch.of(engine.device)
        generate = Generate(models.plain, engine.stop_token_ids, settings.max_new_tokens)
        return lambda prompts, _: generate.timed(prompts, watch)
    if spec.drafted and models.paired is not None:
        engine = models.paired.engine
    return _with_decoder(engine, spec.decoder, spec.settings(settings))


def _with_decoder(engine: Engine, decoder: str, settings: DecodingSettings) -> Decode:
    watch = Stopwatch.of(engine.device)
    return lambda prompts, places: decode_timed(
        lambda rows: records_of(engine, decoder, settings, rows, places), prompts, watch
    )


def _prompts(checkpoint: Checkpoint, texts: Sequence[str], settings: DecodingSettings) -> list[list[int]]:
    prompts = [checkpoint.encode(text) for text in texts]
    check(checkpoint.engine, prompts, settings)  # generate would only warn of what does not fit the context
    return prompts
