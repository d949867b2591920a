"""Finds the checkpoint of the app with the weights that a run was measured with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from mars.checkpoint.sources import weights_digest

MOST_BYTES = 4 * 2**30
"""Weights beyond this size are not read to compare them; their name has to do."""


def named(model: Mapping[str, Any] | None, sources: Mapping[str, str]) -> str | None:
    """The name of the checkpoint with the weights of `model` (docs/runs.md); None if the app has none.

    Weights in a folder are compared by fingerprint; those on the Hub and very large ones by name.
    """
    if model is None:
        return None
    known = {name: fingerprint(source) for name, source in sources.items()}
    found = (name for name, digest in known.items() if digest == model["fingerprint"])
    alike = (name for name, digest in known.items() if digest is None and _called(name, sources[name], model["name"]))
    return next(found, None) or next(alike, None)


def fingerprint(source: str) -> str | None:
    """The `fingerprint` of a model, as in the run store; None if its weights are not read."""
    files = sorted(Path(source).expanduser().glob("*.safetensors"))
    stats = [file.stat() for file in files]
    if not files or sum(stat.st_size for stat in stats) > MOST_BYTES:
        return None
    return _digest(tuple((file, stat.st_mtime_ns) for file, stat in zip(files, stats, strict=True)))


@lru_cache(maxsize=64)
def _digest(files: tuple[tuple[Path, int], ...]) -> str:
    return weights_digest(file for file, _ in files)


def _called(name: str, source: str, wanted: str) -> bool:
    return wanted in (name, source) or Path(source).name == wanted.rsplit("/", 1)[-1]
