"""What the commands that measure time share: lists of numbers, and what a result says of where it came from."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import torch

from mars.provenance import hardware, provenance

DEFAULT_CHECKPOINT = "assets/checkpoints/mars-b8"


def parse_sizes(text: str) -> tuple[int, ...]:
    """Whole numbers >= 1, separated by commas.

    Raises:
        ValueError: they are not.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 10 and int(word) for word in words):
        raise ValueError(f"batch sizes must be whole numbers >= 1, separated by commas, got {text!r}")
    return tuple(map(int, words))


def machine(dtype: str, device: torch.device) -> str:
    """Where it ran, for people."""
    threads = "" if device.type == "cuda" else f", torch threads: {torch.get_num_threads()}"
    return f"{dtype}, {hardware(str(device))}{threads}"


def described_run(dtype: str, device: torch.device) -> dict[str, Any]:
    """Where it ran, for programs."""
    return {
        "dtype": dtype,
        "device": str(device),
        "threads": torch.get_num_threads(),
        **provenance(shlex.join(["python", "-m", "analysis", *sys.argv[1:]]), str(device)),
    }
