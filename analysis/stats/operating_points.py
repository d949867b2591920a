"""Holm's correction: of many settings that are tried, the luckiest looks better than it is."""

from __future__ import annotations

import numpy as np


def holm(p_values: list[float], alpha: float) -> tuple[list[float], list[float]]:
    """Holm's corrected p values, and the level at which each hypothesis was tested in the end.

    The smallest p is tested at alpha / k, the next at alpha / (k − 1), and so on until one is not rejected; the level
    of that one holds for the rest. So p <= level exactly if the corrected p <= alpha: with that confidence no setting
    that qualifies loses as much as was allowed. The fewer settings are tried, the more sensitive the test.
    """
    if len(p_values) < 2:  # nothing to correct
        return p_values, [alpha] * len(p_values)
    from statsmodels.stats.multitest import multipletests  # slow to import, and few commands need it

    rejected, corrected, *_ = multipletests(p_values, alpha, method="holm")
    levels = np.empty(len(p_values))
    levels[np.argsort(p_values, kind="stable")] = alpha / (len(p_values) - np.arange(len(p_values)))
    return corrected.tolist(), np.minimum(levels, alpha / max(1, int((~rejected).sum()))).tolist()
