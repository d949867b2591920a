"""Seconds of one pass of the raw engine, by query length and batch size, for a model of any shape with random weights.

The time of a pass depends on the shape alone, so nothing is downloaded. Acceptance depends on the weights: it is taken
from a recorded run of a real model, and gives the tokens per second to expect if the same held for this shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, Qwen2Config

from analysis.benches.bandwidth import Traffic
from analysis.benches.bench import interleaved
from analysis.stats.intervals import Estimate
from mars.checkpoint.weights import read_config
from mars.engine.engine import Engine, Rows
from mars.engine.window import Window
from mars.metrics import COUNTED
from mars.records import read_jsonl

PASSES = 10
_QWEN: dict[str, Any] = {"max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1e6}
SHAPES: dict[str, dict[str, Any]] = {
    "qwen2.5-0.5b": {
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        **_QWEN,
    },
    "qwen2.5-7b": {
        "hidden_size": 3584,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "intermediate_size": 18944,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
        **_QWEN,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One shape of pass: `seconds` of device time, and the share of the bandwidth it reaches."""

    batch_size: int
    queries: int
    seconds: Estimate
    bandwidth_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The decode and verify passes of a recorded run: tokens gained and positions forwarded per row and pass."""

    tokens_per_forward: float
    queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The numbers of positions a row (`queries`) to time behind `context` cached ones; `tree` has a tree mask."""

    queries: tuple[int, ...]
    tree: int
    batch_sizes: tuple[int, ...]
    context: int
    repeats: int

    @classmethod
    def of(
        cls, block_size: int, batch_sizes: Sequence[int], context: int, repeats: int, replay: Replay | None
    ) -> StepPlan:
        """The query lengths of one-token mode and of exact decoding in its two layouts, and of the recorded run.

        Raises:
            ValueError: a number is below 1.
        """
        for name, value in (("block_size", block_size), ("context", context), ("repeats", repeats)):
            if value < 1:
                raise ValueError(f"{name} must be >= 1, got {value}")
        lengths = {1, 2 * block_size - 1, block_size**2} | ({replay.queries} if replay else set())
        return cls(
            queries=tuple(sorted(lengths)),
            tree=block_size**2,
            batch_sizes=tuple(batch_sizes),
            context=context,
            repeats=repeats,
        )


def read_shape(text: str) -> PreTrainedConfig:
    """The configuration of a known shape, or of a config.json.

    Raises:
        ValueError: it is neither.
    """
    if text in SHAPES:
        return Qwen2Config(**SHAPES[text])
    path = Path(text)
    if path.name != "config.json":
        raise ValueError(f"shape must be {', '.join(SHAPES)} or the path of a config.json, got {text!r}")
    return read_config(path.parent)[1]


def random_model(config: PreTrainedConfig, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """A model of this shape, made on the device, with random weights that are the same each time."""
    torch.manual_seed(0)
    with device:
        return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa").eval()


def read_replay(path: Path) -> Replay:
    """Read the file of `mars.generate --records`.

    Raises:
        ValueError: the file cannot be read, or holds no decode or verify pass.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            records = [record for record in read_jsonl(lines) if record.phase in COUNTED]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}, {error}") from error
    rows = sum(len(record.rows) for record in records)
    if not rows:
        raise ValueError(f"{path} holds no decode or verify pass: record one with mars.generate --records")
    return Replay(
        tokens_per_forward=sum(row.accepted for record in records for row in record.rows) / rows,
        queries=max(1, round(sum(record.query_tokens for record in records) / rows)),
    )


def step_times(
    engine: Engine, traffic: Traffic, plan: StepPlan, progress: Callable[[int], object] = lambda _: None
) -> list[Step]:
    """Measure every shape of pass, in rounds that take all query lengths in turn, after an uncounted round.

    Raises:
        ValueError: the context and the longest window do not fit the model.
    """
    needed = plan.context + max(plan.queries)
    if needed > engine.context_length:
        raise ValueError(f"context + queries must be <= the context length of {engine.context_length}, got {needed}")
    steps = []
    for size in plan.batch_sizes:
        rows = engine.open(size, needed)
        windows = {queries: _window(engine, plan, size, queries) for queries in plan.queries}
        measures = {queries: partial(_round, engine, rows, window) for queries, window in windows.items()}
        seconds = interleaved(measures, plan.repeats, progress)
        for queries in plan.queries:
            found = Estimate.of(seconds[queries])
            share = traffic.share(1, size * (plan.context + queries), found.median)
            steps.append(Step(batch_size=size, queries=queries, seconds=found, bandwidth_share=share))
    return steps


def _window(engine: Engine, plan: StepPlan, rows: int, queries: int) -> Window:
    """Queries behind the context; a mask of their own where they form a tree."""
    slots_Q = torch.arange(plan.context + 1, plan.context + queries + 1, device=engine.device)
    tree = queries == plan.tree and queries > 1
    return Window(
        ids_RQ=torch.zeros(rows, queries, dtype=torch.long, device=engine.device),
        slots_RQ=slots_Q.repeat(rows, 1),
        extent=plan.context + queries + 1,
        keep=queries,
        sees_RQQ=torch.ones(1, queries, queries, dtype=torch.bool, device=engine.device).tril() if tree else None,
    )


def _round(engine: Engine, rows: Rows, window: Window) -> float:
    """Median seconds of a few passes."""
    seconds = []
    for _ in range(PASSES):
        with engine.clock() as clock:
            rows.forward(window)
        seconds.append(clock.seconds)
    return median(seconds)
