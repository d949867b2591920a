"""Fabricated runs: stores in memory with the fields and columns of docs/runs.md, and numbers made up."""

from collections.abc import Iterable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.runs import RunStore
from analysis.runs.schema import RunSettings, setting_hash

TASKS = ("logic", "word_problems")
PROVENANCE = {
    "command": "python -m analysis sweep …",
    "commit": "0" * 40,
    "hardware": "a machine, 2 cores",
    "threads": 1,
    "processes": 1,
    "torch": "2",
    "transformers": "5",
    "python": "3",
    "date": "2026-01-02T03:04:05+00:00",
    "plan": "fabricated",
}


def model(name: str, stage: str | None = "mars", block_size: int | None = 8, sft_loss: bool | None = True) -> dict:
    """The model of an entry."""
    return {
        "name": name,
        "fingerprint": f"{abs(hash_of(name)):016x}"[:16],
        "parameters": 1000,
        "stage": stage,
        "block_size": block_size,
        "sft_loss": sft_loss,
        "examples": 100,
    }


def hash_of(name: str) -> int:
    return int.from_bytes(name.encode()[:7].ljust(7, b"\1"), "big")


AR = model("ar-sft", "sft", None, None)


def run(
    model: dict = AR,
    decoder: str = "autoregressive",
    *,
    accuracy: float = 0.9,
    gain: float = 1.0,
    speed: float = 100.0,
    problems: int = 40,
    batch_size: int = 16,
    group: str | None = None,
    tasks: tuple[str, ...] = TASKS,
    **settings: Any,
) -> tuple[dict[str, Any], pd.DataFrame]:
    """An entry and its rows. `accuracy` is met exactly in each family, on the same problems in every run."""
    block_size = settings.pop("block_size", model["block_size"] or 8)
    entry = {
        "model": model,
        "draft": settings.pop("draft", None),
        "decoder": decoder,
        "settings": asdict(RunSettings(block_size=block_size, **{"threshold": None, **settings})),
        "tasks": list(tasks),
        "problems": problems,
        "seed": 7,
        "batch_size": batch_size,
        "dtype": "float32",
        "device": "cpu",
        "timed": group is not None,
        "group": group,
        **PROVENANCE,
    }
    entry["id"] = f"{decoder}.b{batch_size}.{setting_hash(entry)}"
    return entry, rows(tasks, problems, accuracy, gain, speed)


def rows(tasks: Iterable[str], problems: int, accuracy: float, gain: float, speed: float) -> pd.DataFrame:
    """Rows of which the first problems of each family are right; tokens vary with the problem, not with the run."""
    made = []
    for task in tasks:
        for number in range(problems):
            tokens = 10 + number % 7
            passes = max(1, round(tokens / gain))
            longest = -(-tokens // passes)
            counts = np.bincount([tokens // passes] * passes, minlength=longest + 1)[1:]
            made.append(
                {
                    "task": task,
                    "number": number,
                    "correct": number < round(accuracy * problems),
                    "tokens": tokens,
                    "passes": passes,
                    "seconds": tokens / speed * (1 + 0.1 * (number % 3)),
                    "finish_reason": "stop",
                    "acceptance_lengths": counts,
                    "text": "",
                }
            )
    return pd.DataFrame(made)


def store(runs: Iterable[tuple[dict[str, Any], pd.DataFrame]]) -> RunStore:
    """A store of these runs, in the order of their ids."""
    pairs = sorted(runs, key=lambda pair: pair[0]["id"])
    return RunStore(entries=[entry for entry, _ in pairs], frames={entry["id"]: frame for entry, frame in pairs})


@pytest.fixture(scope="session")
def fabricate() -> SimpleNamespace:
    """`fabricate.store([fabricate.run(…), …])`, and the parts of which runs are made."""
    return SimpleNamespace(model=model, run=run, store=store)
