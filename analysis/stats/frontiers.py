"""The frontier of settings: the speed at a given loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.stats.pairs import paired
from analysis.stats.resampling import check_divisible, sums

_ROUNDING = 1e-12


def speed_at_loss(runs: Sequence[pd.DataFrame], baseline: pd.DataFrame, points: float) -> tuple[float, np.ndarray]:
    """Tokens per forward at a loss of so many points against the baseline, as measured and in each resample.

    Between neighbours on the frontier the speed is interpolated: running each on a part of the problems would reach
    about that. The baseline belongs to the frontier; NaN where the frontier ends before so large a loss. It compares
    frontiers of settings that share no accuracy. ValueError for runs on other problems, or points below 0.
    """
    if points < 0:
        raise ValueError(f"points must be >= 0, got {points}")
    ordered = paired(baseline, *runs)
    totals, drawn = zip(*(sums(ordered[0], rows, ["correct", "tokens", "passes"]) for rows in ordered), strict=True)
    sums_DRC = np.stack(drawn, axis=1)
    check_divisible(sums_DRC[..., 2], "passes")
    values, resamples = (_measured(each, len(baseline)) for each in (np.stack(totals), sums_DRC))
    return _at_loss(values, points), np.array([_at_loss(sample, points) for sample in resamples])


def _measured(sums_XRC: np.ndarray, problems: int) -> np.ndarray:
    """Accuracy and tokens per forward from the sums of what is right, tokens and passes."""
    return np.stack([sums_XRC[..., 0] / problems, sums_XRC[..., 1] / sums_XRC[..., 2]], axis=-1)


def _at_loss(points: np.ndarray, loss: float) -> float:
    """`points` [run, (accuracy, speed)], the baseline first."""
    by_speed = points[np.argsort(points[:, 1], kind="stable")]
    best = np.maximum.accumulate(by_speed[::-1, 0])[::-1]  # the best accuracy at this speed or above
    losses = points[0, 0] - best
    if losses[-1] < loss / 100 - _ROUNDING:
        return np.nan
    return float(np.interp(loss / 100 + _ROUNDING, losses, by_speed[:, 1]))
