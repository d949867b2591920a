"""The two models that each claim is judged on: the tiny ones of this repository, and a pretrained one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.recipes import RECIPES

SMALLEST_REAL = 50_000_000
"""Parameters from which a model counts as a real one: a pass over it is bound by reading weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnReal:
    """How a claim is measured on the real model: by these recipes, or after what has to be made `first`."""

    recipes: tuple[str, ...] = ()
    first: str = ""

    def words(self) -> str:
        """The commands, or what is missing, in Markdown."""
        lines = [f"`{line}`" for name in self.recipes for line in RECIPES[name].lines()]
        return ", ".join(lines) or f"first, {self.first}"


ON_REAL: Mapping[int, OnReal] = {
    1: OnReal(recipes=("real-one-token",)),
    2: OnReal(first="merged adapters of two block sizes, with and without the SFT loss"),
    3: OnReal(recipes=("real-accuracy",)),
    4: OnReal(recipes=("real-caches",)),
    5: OnReal(recipes=("real-accuracy", "real-scores")),
    6: OnReal(recipes=("real-jacobi",)),
    7: OnReal(first="a smaller model with the base's vocabulary, as a draft"),
    8: OnReal(first="a block diffusion model trained from the base"),
    9: OnReal(recipes=("real-accuracy",)),
    10: OnReal(recipes=("real-caches",)),
    11: OnReal(recipes=("real-accuracy",)),
    12: OnReal(recipes=("real-bench",)),
}
"""By the number of the claim."""


def is_real(parameters: int) -> bool:
    """Whether a model with so many parameters is a real one."""
    return parameters >= SMALLEST_REAL


def is_real_bench(bench: Mapping[str, Any]) -> bool:
    """Whether a file of `analysis bench --json` is of a real model, by the bytes of its weights."""
    size = 2 if bench.get("dtype") == "bfloat16" else 4
    return is_real(int(bench.get("traffic", {}).get("weight_bytes", 0)) // size)
