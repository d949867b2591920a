"""Calibration: how often a mask proposal of a given score is what one-token mode writes there.

`proposals` is the table of docs/runs.md. The intervals take proposals as independent; those of one text are not quite,
so they are somewhat narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Bins of scores that are shares: finer near 1, where most proposals and all useful thresholds lie."""
_ROUNDING = 1e-5

BINS = ("depth", "low", "high", "n", "mean_score", "agreement", "agreement_low", "agreement_high")
DEPTHS = ("depth", "n", "mean_score", "agreement", "agreement_low", "agreement_high", "calibration_error")


def reliability(proposals: pd.DataFrame, edges: Sequence[float] = EDGES) -> pd.DataFrame:
    """One row per depth and bin that holds proposals, with the columns BINS; `agreement` with its Wilson interval.

    A bin holds low <= score < high, the last one its high end too. Entropies need edges of their own.

    Raises:
        ValueError: the edges do not rise, or a score lies outside of them.
    """
    bins = _bins(proposals["score"].to_numpy(dtype=float), edges)
    groups = proposals.assign(bin=bins).groupby(["depth", "bin"], sort=True)
    found = _summed(groups)
    lowest = np.asarray(edges, dtype=float)
    return found.assign(low=lowest[found["bin"]], high=lowest[found["bin"] + 1])[list(BINS)]


def calibration_error(proposals: pd.DataFrame, edges: Sequence[float] = EDGES) -> float:
    """Expected calibration error: |mean score − share that agrees| of each bin, weighted by its proposals.

    It asks for scores that claim to be shares, so the probability.

    Raises:
        ValueError: there are no proposals, scores are no shares, or the edges do not rise.
    """
    if proposals.empty:
        raise ValueError("a calibration error needs at least one proposal, got none")
    if edges[0] < 0 or edges[-1] > 1:
        raise ValueError(f"edges must be between 0 and 1 for a calibration error, got {edges[0]:g} to {edges[-1]:g}")
    bins = _bins(proposals["score"].to_numpy(dtype=float), edges)
    found = _summed(proposals.assign(bin=bins).groupby("bin"))
    gaps = (found["mean_score"] - found["agreement"]).abs()
    return float((gaps * found["n"]).sum() / found["n"].sum())


def by_depth(proposals: pd.DataFrame, edges: Sequence[float] | None = EDGES) -> pd.DataFrame:
    """One row per depth with the columns DEPTHS; without edges (entropies) the calibration error is left empty.

    Raises:
        ValueError: as for `calibration_error`.
    """
    found = _summed(proposals.groupby("depth", sort=True))
    errors = [
        np.nan if edges is None else calibration_error(proposals[proposals["depth"] == depth], edges)
        for depth in found["depth"]
    ]
    return found.assign(calibration_error=np.asarray(errors, dtype=float))[list(DEPTHS)]


def _bins(scores: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    if len(edges) < 2 or any(high <= low for low, high in pairwise(edges)):
        raise ValueError(f"edges must rise, and be two or more, got {', '.join(f'{edge:g}' for edge in edges)}")
    outside = (scores < edges[0] - _ROUNDING) | (scores > edges[-1] + _ROUNDING) | np.isnan(scores)
    if outside.any():
        raise ValueError(f"score must be between {edges[0]:g} and {edges[-1]:g}, got {scores[outside][0]:g}")
    return np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, len(edges) - 2)


def _summed(groups: Any) -> pd.DataFrame:
    from statsmodels.stats.proportion import proportion_confint  # slow to import, and few commands need it

    found = groups.agg(n=("agrees", "size"), agreed=("agrees", "sum"), mean_score=("score", _mean)).reset_index()
    low, high = proportion_confint(found["agreed"].to_numpy(), found["n"].to_numpy(), method="wilson")
    return found.assign(agreement=found["agreed"] / found["n"], agreement_low=low, agreement_high=high)


def _mean(scores: pd.Series) -> float:
    return float(scores.astype(float).mean())
