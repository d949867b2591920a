"""What a run says of its models, read from their files, and the models themselves, loaded while they are needed."""

from __future__ import annotations

import argparse
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from safetensors import SafetensorError, safe_open

from mars.checkpoint import Checkpoint, CheckpointError, mask_training, read_record
from mars.weights import locate, read_config

Key = tuple[str, str | None, str, str]
"""Checkpoint, draft, dtype, device."""


def describe(source: str) -> dict[str, Any]:
    """The model of an index entry (docs/runs.md).

    Raises:
        CheckpointError: one sentence that names the file at fault.
    """
    folder, name = locate(source)
    record = read_record(folder)
    model_type, _ = read_config(folder)
    trained, block_size = mask_training(record, model_type, name)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} has no *.safetensors: give a folder that holds weights")
    digest = hashlib.sha256()
    parameters = 0
    for file in files:
        with file.open("rb") as opened:
            while part := opened.read(1 << 20):
                digest.update(part)
        try:
            with safe_open(file, "pt") as weights:
                parameters += sum(math.prod(weights.get_slice(key).get_shape()) for key in weights.keys())  # noqa: SIM118
        except SafetensorError as error:
            raise CheckpointError(f"{file} cannot be read: {error}") from error
    return {
        "name": name,
        "fingerprint": digest.hexdigest()[:16],
        "parameters": parameters,
        "stage": record.get("stage", "mars" if trained else None),
        "block_size": block_size,
        "sft_loss": record.get("sft_loss") if trained else None,
        "examples": record.get("measured", {}).get("examples"),
    }


@dataclass(slots=True)
class Models:
    """Checkpoints by what they were loaded as."""

    _loaded: dict[Key, Checkpoint] = field(default_factory=dict)

    def keep(self, keys: Iterable[Key]) -> None:
        """Forget all others."""
        wanted = set(keys)
        self._loaded = {key: model for key, model in self._loaded.items() if key in wanted}

    def get(self, key: Key) -> Checkpoint:
        """The checkpoint; with a draft, its engine is the pair of both.

        Raises:
            ValueError: one sentence about the file at fault.
        """
        if key not in self._loaded:
            from mars.loading import DRAFTED, load  # brings the speculative decoder along, which few runs need

            source, draft, dtype, device = key
            decoder = "" if draft is None else DRAFTED
            options = {"checkpoint": source, "draft": draft, "decoder": decoder, "dtype": dtype, "device": device}
            self._loaded[key] = load(argparse.Namespace(**options))
        return self._loaded[key]
