"""The two models that each claim is judged on: the tiny ones of this repository, and a pretrained one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SMALLEST_REAL = 50_000_000
"""Parameters from which a model counts as a real one: a pass over it is bound by reading weights."""
BASE, ADAPTER = "smollm2-135m", "assets/adapters/smollm2-135m-mars"
PLAN = f"analysis/plans/real-model.sh {BASE} {ADAPTER}"
_IFEVAL = f"python -m analysis ifeval --checkpoint {ADAPTER} --baseline {BASE} --runs assets/runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """How a claim would be measured on the real model: the `command`, or what has to be made first (`first`)."""

    command: str = ""
    first: str = ""


_CACHES = Missing(
    command=f"{_IFEVAL} --timed --batch-size 4 --decoders autoregressive,sliding_window@0.95,"
    "block_cached@0.95/c8,block_cached@0.95/c16,block_cached@0.95/c32"
)
TO_MEASURE: Mapping[int, Missing] = {
    1: Missing(command=PLAN),
    2: Missing(first="merged adapters of two block sizes, with and without the SFT loss"),
    3: Missing(command=PLAN),
    4: _CACHES,
    5: Missing(first="runs by margin and entropy, which `ifeval` cannot name yet"),
    6: Missing(
        command=f"python -m analysis ifeval --checkpoint {BASE} --decoders autoregressive,jacobi/k4 --runs assets/runs"
    ),
    7: Missing(first="a smaller model with the base's vocabulary, as a draft"),
    8: Missing(first="a block diffusion model trained from the base"),
    9: Missing(command=PLAN),
    10: _CACHES,
    11: Missing(first="runs with the further proposal, which `ifeval` cannot name yet"),
    12: Missing(
        command=f"python -m analysis bench --checkpoint {ADAPTER} --json | tail -n 1 > assets/runs/bench-135m.json"
    ),
}
"""By the number of the claim."""


def is_real(parameters: int) -> bool:
    """Whether a model with so many parameters is a real one."""
    return parameters >= SMALLEST_REAL


def is_real_bench(bench: Mapping[str, Any]) -> bool:
    """Whether a file of `analysis bench --json` is of a real model, by the bytes of its weights."""
    size = 2 if bench.get("dtype") == "bfloat16" else 4
    return is_real(int(bench.get("traffic", {}).get("weight_bytes", 0)) // size)
