"""Speed-ups with the machine in their interval: runs that took turns are compared turn by turn.

Two runs of one turn are close in time; from turn to turn both the problems and the state of the machine change. So the
spread of the speed-up between turns holds both, and so does Student's interval over turns, of the logarithms; one over
problems alone does not. Nothing is left out: a drift is reported, not removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
import pandas as pd
from scipy.stats import linregress, t

from analysis.stats.intervals import CONFIDENCE, Interval, check_confidence

FEWEST = 4
"""Turns that an interval needs."""
DRAWS = 200
COLUMN = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnGain:
    """A speed-up over so many turns, and the standard deviations, in percent, that turns have from each source.

    `machine` is what is left of the spread between turns without that of the problems, resampled within each.
    """

    gain: Interval
    turns: int
    machine: float
    problems: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The slow-down in percent from the first turn to the last, by a straight line through all, and its p-value."""

    percent: float
    p_value: float


def over_turns(candidate: pd.DataFrame, baseline: pd.DataFrame, confidence: float = CONFIDENCE) -> TurnGain | None:
    """Tokens per second of the candidate over the baseline's: the geometric mean over turns.

    None where the rows do not say in which turn they were decoded, the turns differ, or there are too few.
    """
    check_confidence(confidence)
    sides = (candidate, baseline)
    if not all(COLUMN in rows for rows in sides):
        return None
    ours, theirs = (dict(iter(rows.groupby(COLUMN))) for rows in sides)
    if ours.keys() != theirs.keys() or len(ours) < FEWEST:
        return None
    gains = np.array([_speed(ours[number]) - _speed(theirs[number]) for number in ours])
    by_problems = float(np.mean([_problem_variance(ours[number], theirs[number]) for number in ours]))
    spread = float(gains.var(ddof=1))
    centre, half = float(gains.mean()), float(t.isf((1 - confidence) / 2, len(gains) - 1)) * sqrt(spread / len(gains))
    return TurnGain(
        gain=Interval(exp(centre), exp(centre - half), exp(centre + half)),
        turns=len(gains),
        machine=100 * sqrt(max(0.0, spread - by_problems)),
        problems=100 * sqrt(by_problems),
    )


def drift(rows: pd.DataFrame) -> Drift | None:
    """Whether the seconds of a token rose or fell over the turns of a run; None without turns, or with too few."""
    if COLUMN not in rows or rows[COLUMN].nunique() < FEWEST:
        return None
    numbers = sorted(rows[COLUMN].unique())
    slow = [-_speed(rows[rows[COLUMN] == number]) for number in numbers]
    line = linregress(range(len(numbers)), slow)
    return Drift(percent=100 * (exp(line.slope * (len(numbers) - 1)) - 1), p_value=float(line.pvalue))


def _speed(rows: pd.DataFrame) -> float:
    """The logarithm of tokens per second."""
    return log(rows["tokens"].sum() / rows["seconds"].sum())


def _problem_variance(ours: pd.DataFrame, theirs: pd.DataFrame) -> float:
    """The variance that a turn's gain has from its problems: they are drawn again, the same for both."""
    keys = ["task", "number"]
    columns = [rows.sort_values(keys)[["tokens", "seconds"]].to_numpy(dtype=float) for rows in (ours, theirs)]
    drawn = np.random.default_rng(0).integers(len(ours), size=(DRAWS, len(ours)))
    sums = [values[drawn].sum(axis=1) for values in columns]
    logs = [np.log(each[:, 0] / each[:, 1]) for each in sums]
    return float((logs[0] - logs[1]).var(ddof=1))
