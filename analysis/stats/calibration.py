"""Calibration: how often a mask proposal of a given score is the token that one-token mode writes there.

`proposals` is the table of docs/runs.md. The intervals take proposals as independent; those of one text are not quite,
so they are somewhat narrow.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Bins of scores that are shares: finer near 1, where most proposals and all useful thresholds lie."""
_ROUNDING = 1e-5

BINS = ("depth", "low", "high", "n", "mean_score", "agreement", "agreement_low", "agreement_high")


def reliability(proposals: pd.DataFrame) -> pd.DataFrame:
    """One row per depth and bin that holds proposals, with the columns BINS; `agreement` with its Wilson interval.

    A bin holds low <= score < high, the last one its high end too.

    Raises:
        ValueError: a score is not a share, such as an entropy.
    """
    from statsmodels.stats.proportion import proportion_confint  # slow to import, and few commands need it

    scores = proposals["score"].to_numpy(dtype=float)
    outside = ~((scores >= -_ROUNDING) & (scores <= 1 + _ROUNDING))
    if outside.any():
        raise ValueError(f"score must be between 0 and 1, got {scores[outside][0]:g}")
    bins = np.clip(np.searchsorted(EDGES, scores, side="right") - 1, 0, len(EDGES) - 2)
    groups = proposals.assign(bin=bins).groupby(["depth", "bin"], sort=True)
    mean = ("score", lambda group: float(group.astype(float).mean()))
    found = groups.agg(n=("agrees", "size"), agreed=("agrees", "sum"), mean_score=mean).reset_index()
    low, high = proportion_confint(found["agreed"].to_numpy(), found["n"].to_numpy(), method="wilson")
    edges = np.asarray(EDGES)
    return found.assign(
        low=edges[found["bin"]],
        high=edges[found["bin"] + 1],
        agreement=found["agreed"] / found["n"],
        agreement_low=low,
        agreement_high=high,
    )[list(BINS)]
