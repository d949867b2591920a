"""Speed-ups with the machine in their interval: runs that took turns are compared turn by turn.

Two runs of one turn are close in time; from turn to turn both the problems and the state of the machine change. So the
spread of the speed-up between turns holds both, and so does an interval from it: Student's, of the logarithm, with the
standard error of the jackknife over turns. One over problems alone does not.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.stats.pairs import speed_up

FEWEST = 4
"""Turns that an interval needs."""
COLUMN = "turn"


def over_turns(candidate: pd.DataFrame, baseline: pd.DataFrame, confidence: float = CONFIDENCE) -> Interval | None:
    """Tokens per second of the candidate over the baseline's, with Student's interval of the jackknife over turns.

    None where the rows do not say in which turn they were decoded, the turns differ, or there are too few.
    """
    if not all(COLUMN in rows for rows in (candidate, baseline)):
        return None
    ours, theirs = (rows.groupby(COLUMN)[["tokens", "seconds"]].sum() for rows in (candidate, baseline))
    count = len(ours)
    if set(ours.index) != set(theirs.index) or count < FEWEST:
        return None
    sums_T4 = np.hstack([ours.to_numpy(dtype=float), theirs.loc[ours.index].to_numpy(dtype=float)])
    whole = sums_T4.sum(0)
    centre, without_T = _gain(whole), _gain(whole - sums_T4)
    spread = (count - 1) / count * float(((without_T - without_T.mean()) ** 2).sum())
    half = -float(stdtrit(count - 1, (1 - confidence) / 2)) * sqrt(spread)
    return Interval(exp(centre), exp(centre - half), exp(centre + half))


def time_gain(candidate: pd.DataFrame, baseline: pd.DataFrame, confidence: float = CONFIDENCE) -> Interval:
    """The same, over problems where the rows do not tell enough turns; ValueError as of `speed_up`."""
    found = over_turns(candidate, baseline, confidence)
    return speed_up(candidate, baseline, confidence=confidence) if found is None else found


def _gain(sums_X4: np.ndarray) -> Any:
    """The logarithm of a speed-up, from tokens and seconds of both."""
    logs = np.log(sums_X4)
    return logs[..., 0] - logs[..., 1] - logs[..., 2] + logs[..., 3]
