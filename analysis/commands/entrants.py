"""From contestants to what runs them: the models of a benchmark, and one entrant for each contestant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from analysis.benches.bench import Decode, Entrant
from analysis.decoding.contestants import BASELINE, GENERATE, Contestant
from analysis.decoding.continuous import is_continuous, run
from analysis.decoding.timed import Generate, Stopwatch, decode_timed
from mars.checkpoint import DTYPES, Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.decoding.base import check
from mars.engine import Engine
from mars.tasks import Problem
from mars.weights import load_model, locate, read_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The checkpoint; the same weights apart, as transformers runs them; a second AR one; the pair with its draft."""

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
        kind = {"dtype": options.dtype, "device": options.device}
        checkpoint = load_checkpoint(source, **kind)
        folder, _ = locate(source)
        plain = load_model(folder, *read_config(folder), DTYPES[checkpoint.dtype])
        return cls(
            checkpoint=checkpoint,
            plain=plain.to(checkpoint.engine.device),
            other=load_checkpoint(options.ar, **kind) if options.ar else None,
            paired=_load_pair(options, source) if options.draft else None,
        )


def entrants_of(
    contestants: Sequence[Contestant], models: Models, settings: DecodingSettings, problems: Sequence[Problem]
) -> list[Entrant]:
    """One entrant per contestant, and one for the second AR checkpoint.

    Raises:
        ValueError: a problem does not fit the context of a model.
    """
    prompts = _prompts(models.checkpoint, problems, settings)
    found = [
        Entrant(
            label=contestant.label,
            decode=_decoding(contestant, models, settings),
            prompts=prompts,
            lossless=contestant.lossless,
            continuous=is_continuous(contestant.decoder),
        )
        for contestant in contestants
    ]
    if models.other is not None:
        found.append(
            Entrant(
                label=f"{BASELINE} on {models.other.name}",
                decode=_with_decoder(models.other.engine, BASELINE, settings),
                prompts=_prompts(models.other, problems, settings),
                comparable=False,
                continuous=True,
            )
        )
    return found


def _decoding(contestant: Contestant, models: Models, settings: DecodingSettings) -> Decode:
    engine = models.checkpoint.engine
    if contestant.decoder == GENERATE:
        watch = Stopwatch.of(engine.device)
        generate = Generate(models.plain, engine.stop_token_ids, settings.max_new_tokens)
        return lambda prompts, _: generate.timed(prompts, watch)
    if contestant.traits.draft and models.paired is not None:
        engine = models.paired.engine
    return _with_decoder(engine, contestant.decoder, contestant.settings(settings))


def _with_decoder(engine: Engine, decoder: str, settings: DecodingSettings) -> Decode:
    watch = Stopwatch.of(engine.device)
    return lambda prompts, places: decode_timed(
        lambda rows: run(engine, decoder, settings, rows, places), prompts, watch
    )


def _prompts(checkpoint: Checkpoint, problems: Sequence[Problem], settings: DecodingSettings) -> list[list[int]]:
    prompts = [checkpoint.encode(problem.prompt) for problem in problems]
    check(checkpoint.engine, prompts, settings)  # generate would only warn of what does not fit the context
    return prompts


def _load_pair(options: argparse.Namespace, source: str) -> Checkpoint:
    from mars.loading import DRAFTED, load  # brings the speculative decoder along, which few runs need

    return load(argparse.Namespace(**{**vars(options), "checkpoint": source, "decoder": DRAFTED}))
