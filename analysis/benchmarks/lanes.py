"""The lanes that answer a benchmark's questions, each a decoder with settings on a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.benchmarks.questions import fingerprint
from analysis.decoding.decoder_specs import BASELINE, GENERATE, DecoderSpec, check_runnable, parse_decoder_specs
from analysis.sweeps.models import describe
from mars.checkpoint import Checkpoint, CheckpointError
from mars.config import DecodingSettings
from mars.decoders import STAGES, drafted
from mars.engine import ModelEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkLane:
    """A decoder on a checkpoint; `model` is the description of the checkpoint for the run store."""

    label: str
    checkpoint: Checkpoint
    model: dict[str, Any]
    spec: DecoderSpec
    settings: DecodingSettings


def parse_decoders(text: str, threshold: float | None) -> list[DecoderSpec]:
    """The decoders of a list such as "autoregressive,sliding_window@0.95", in order, each once.

    `threshold` is for words that can have one and name none.

    Raises:
        ValueError: lists the valid words.
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word.split("/")[0] in (GENERATE, *(decoder.name for decoder in drafted())):
            raise ValueError(
                f"decoders must be decoders of one checkpoint, got {word}: `analysis bench` compares with it"
            )
    return list(dict.fromkeys(parse_decoder_specs(word, threshold)[-1] for word in words))


def lanes_of(
    specs: Sequence[DecoderSpec],
    checkpoint: Checkpoint,
    model: dict[str, Any],
    max_new_tokens: int,
    baseline: tuple[Checkpoint, dict[str, Any]] | None = None,
) -> list[BenchmarkLane]:
    """A lane for each spec; with `baseline`, the only autoregressive lane is the first one, on that checkpoint.

    Raises:
        ValueError: a spec cannot run on the checkpoint, or a setting is out of range.
    """
    check_runnable(specs, checkpoint.name, masks=checkpoint.supports_masks)
    if baseline is not None:
        specs = [spec for spec in specs if spec.decoder != BASELINE]
    base = DecodingSettings(block_size=checkpoint.usual_block_size, threshold=None, max_new_tokens=max_new_tokens)
    on = [(spec, checkpoint, model) for spec in specs]
    if baseline is not None:
        on.insert(0, (DecoderSpec(decoder=BASELINE, label=BASELINE), *baseline))
    return [
        BenchmarkLane(label=spec.label, checkpoint=own, model=described, spec=spec, settings=spec.settings(base))
        for spec, own, described in on
    ]


def described(source: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """The model of an entry of the run store: from its files, or from its weights if it is no plain folder.

    The fingerprint covers the record of an adapter, which is not among the weights of the model.
    """
    try:
        found = describe(source)
        return found | {"stage": _stage(found["stage"], checkpoint)}
    except CheckpointError:
        if not isinstance(checkpoint.engine, ModelEngine):
            raise
    state = checkpoint.engine.model.state_dict()
    digest = hashlib.sha256(fingerprint(sorted(checkpoint.record.items())).encode())
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().float().cpu().contiguous().numpy().tobytes())
    return {
        "name": checkpoint.name,
        "fingerprint": digest.hexdigest()[:16],
        "parameters": sum(part.numel() for part in checkpoint.engine.model.parameters()),
        "stage": _stage(checkpoint.record.get("stage"), checkpoint),
        "block_size": checkpoint.block_size,
        "sft_loss": None,
        "examples": None,
    }


def training_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The field `training` of a run's entry: how the model was trained, without the log; no field without a record."""
    record = {name: value for name, value in checkpoint.record.items() if name != "started_from"}
    if "measured" in record:
        record["measured"] = {name: value for name, value in record["measured"].items() if name != "log"}
    return {"training": record} if record else {}


def _stage(stage: object, checkpoint: Checkpoint) -> object:
    """The stage as the run store has it: an adapter that fills masks counts as MARS."""
    return stage if stage in STAGES else "mars" if checkpoint.supports_masks else None
