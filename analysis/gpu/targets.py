"""Performance targets on a GPU, compared with the results of the steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = 15
"""Of a pass of exact decoding in the linear layout with blocks of 8."""
BANDWIDTH, WIDE_PASS, EXACT_SPEEDUP = 0.70, 1.1, 2.3
EFFICIENCY = {1: 0.95, 4: 0.95, 8: 0.95, 16: 0.85}
"""Wall-clock speed-up divided by tokens per forward, by batch size."""
_LINEAR = "self_speculative/linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A sentence, the bound, and the measured value; with `least` the bound is a minimum, else a maximum."""

    says: str
    bound: float
    value: float
    least: bool = True

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.value >= self.bound if self.least else self.value <= self.bound


def targets(runs: Path) -> list[Target]:
    """The targets for which this folder has results."""
    return [*_passes(_read(runs / "passes-7b.json")), *_decoders(_read(runs / "bench-masks.json"))]


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _passes(found: dict[str, Any]) -> Iterator[Target]:
    steps = {(step["batch_size"], step["queries"]): step for step in found.get("steps", ())}
    one = steps.get((1, 1))
    if one and one["bandwidth_share"] is not None:
        yield Target(
            says="share of the copy bandwidth, 7B shape, batch 1, one column",
            bound=BANDWIDTH,
            value=one["bandwidth_share"],
        )
    for size in (1, 2, 4, 8):
        if (size, 1) in steps and (size, COLUMNS) in steps:
            ratio = steps[size, COLUMNS]["seconds"]["median"] / steps[size, 1]["seconds"]["median"]
            yield Target(
                says=f"pass of {COLUMNS} columns over one of 1, 7B shape, batch {size}",
                bound=WIDE_PASS,
                value=ratio,
                least=False,
            )


def _decoders(found: dict[str, Any]) -> Iterator[Target]:
    results = found.get("results", ())
    for result in results:
        bound = EFFICIENCY.get(result["batch_size"])
        if result["contestant"] == _LINEAR and bound is not None and result.get("efficiency"):
            yield Target(
                says=f"speed-up over tokens per forward, {_LINEAR}, batch {result['batch_size']}",
                bound=bound,
                value=result["efficiency"]["median"],
            )
    exact = [
        result["speedup_over_autoregressive"]["median"]
        for result in results
        if result["contestant"].startswith("self_speculative")
        and result["batch_size"] == 1
        and result.get("speedup_over_autoregressive")
    ]
    if exact:
        yield Target(says="exact decoding over AR, batch 1", bound=EXACT_SPEEDUP, value=max(exact))
