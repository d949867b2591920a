"""The models of a benchmark, and one case that is ready to run for each spec of a decoder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from analysis.benches.bench import BenchCase, Decode
from analysis.decoding.decoder_specs import BASELINE, GENERATE, DecoderSpec
from analysis.decoding.llama_cpp import LLAMA_CPP, LlamaCpp
from analysis.decoding.timed import Generate, Stopwatch, decode_timed, is_continuous, run
from mars.checkpoint.adapter import weights_folder
from mars.checkpoint.checkpoint import Checkpoint, load_pair, load_source
from mars.checkpoint.sources import NAMED_BASES
from mars.checkpoint.weights import load_model, read_config
from mars.config import DecodingSettings
from mars.decoding.base import check
from mars.engine import Engine


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
            paired=_load_pair(options, source) if options.draft else None,
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
    watch = Stopwatch()
    return BenchCase(
        label=LLAMA_CPP, decode=lambda rows, _: baseline.timed(rows, watch), prompts=prompts, comparable=False
    )


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
        lambda rows: run(engine, decoder, settings, rows, places), prompts, watch
    )


def _prompts(checkpoint: Checkpoint, texts: Sequence[str], settings: DecodingSettings) -> list[list[int]]:
    prompts = [checkpoint.encode(text) for text in texts]
    check(checkpoint.engine, prompts, settings)  # generate would only warn of what does not fit the context
    return prompts


def _load_pair(options: argparse.Namespace, source: str) -> Checkpoint:
    return load_pair(argparse.Namespace(**{**vars(options), "checkpoint": source}))
