"""The models of a run: described from their files for its entry, and loaded while they are needed."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from mars.checkpoint.adapter import adapter_below, weights_folder
from mars.checkpoint.checkpoint import Checkpoint, CheckpointError, load_pair, mask_training, read_record
from mars.checkpoint.sources import locate, weights_digest
from mars.checkpoint.weights import read_config
from mars.decoders import STAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelKey:
    """What loads a model, as the options of a command name it."""

    checkpoint: str
    draft: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    base: str | None = None
    allow_other_base: bool = False


@dataclass(slots=True)
class Models:
    """Loaded checkpoints by the key that they were loaded with."""

    _loaded: dict[ModelKey, Checkpoint] = field(default_factory=dict)

    def keep(self, keys: Iterable[ModelKey]) -> None:
        """Keep these checkpoints, and forget all others."""
        wanted = set(keys)
        self._loaded = {key: model for key, model in self._loaded.items() if key in wanted}

    def get(self, key: ModelKey) -> Checkpoint:
        """The checkpoint; with a draft, its engine is the pair of both.

        ValueError, one sentence about the file at fault.
        """
        if key not in self._loaded:
            self._loaded[key] = load_pair(argparse.Namespace(**asdict(key)))
        return self._loaded[key]


def describe(source: str, base: str | None = None) -> dict[str, Any]:
    """The model of an index entry (docs/runs.md). An adapter's hash covers its own files, its parameters the base too.

    `base` is the hash of the adapter's base, as in the base's own runs. Other models have none. CheckpointError, one
    sentence that names the file at fault.
    """
    folder, name = locate(source)
    record = read_record(folder)
    whole = weights_folder(source, base)
    model_type, _ = read_config(whole)
    trained, block_size = mask_training(record, model_type, name)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} has no *.safetensors: give a folder that holds weights")
    of_base = [] if whole == folder else sorted(whole.glob("*.safetensors"))
    below = adapter_below(folder) if of_base else None
    stage = record.get("stage")
    return {
        "name": name,
        "fingerprint": weights_digest(files),
        "parameters": sum(map(_parameters, [*files, *of_base, *(below.glob("*.safetensors") if below else ())])),
        "stage": stage if stage in STAGES else "mars" if trained else None,
        "block_size": block_size,
        "sft_loss": record.get("sft_loss") if trained else None,
        "examples": record.get("measured", {}).get("examples"),
        **({"base": weights_digest(of_base)} if of_base else {}),
    }


def training_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The field `training` of a run's entry: how the model was trained, without the log; no field without a record."""
    others = ("started_from", "calibration", "default")
    record = {name: value for name, value in checkpoint.record.items() if name not in others}
    if "measured" in record:
        record["measured"] = {name: value for name, value in record["measured"].items() if name != "log"}
    return {"training": record} if record else {}


def _parameters(file: Path) -> int:
    try:
        with safe_open(file, "pt") as weights:
            return sum(math.prod(weights.get_slice(key).get_shape()) for key in weights.keys())  # noqa: SIM118
    except SafetensorError as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
