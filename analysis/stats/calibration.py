"""Calibration: how often a mask proposal of a given score is the token that one-token mode writes there, and the fit
that makes a score say so.

`proposals` have the columns `prompt`, `depth` (how many masks were read), `score` and `agrees`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from mars.config import LEAST_CHANCE

EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Bins of scores that are shares: finer near 1, where most proposals and all useful thresholds lie."""
FOLDS = 5
WAYS = ("one pair for all masks", "a pair for each mask")

BINS = ("low", "high", "n", "mean_score", "agreement")


def reliability(proposals: pd.DataFrame) -> pd.DataFrame:
    """One row per bin that holds proposals, with the columns BINS.

    A bin holds low <= score < high, the last one its high end too; the scores are probabilities.
    """
    scores = proposals["score"].to_numpy(dtype=float)
    bins = np.clip(np.searchsorted(EDGES, scores, side="right") - 1, 0, len(EDGES) - 2)
    groups = proposals.assign(bin=bins).groupby("bin", sort=True)
    mean = ("score", lambda group: float(group.astype(float).mean()))
    found = groups.agg(n=("agrees", "size"), mean_score=mean, agreement=("agrees", "mean")).reset_index()
    edges = np.asarray(EDGES)
    return found.assign(low=edges[found["bin"]], high=edges[found["bin"] + 1])[list(BINS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A calibration of scores that are probabilities: for each mask, or once for all of them, a slope and an offset.

    `log_loss` is that of the probabilities, of one pair for all masks and of a pair for each, the last two on prompts
    left out; the lesser of these is taken. `before` and `after` are the reliability of the probabilities and of the
    chances, these on prompts left out, all masks together.
    """

    masks: list[list[float]]
    log_loss: dict[str, float]
    before: pd.DataFrame
    after: pd.DataFrame


def fit(proposals: pd.DataFrame, seed: int = 0) -> Fit:
    """Fit by cross-validation over prompts.

    ValueError where there are too few prompts, or more probable proposals are not more often right.
    """
    numbers = np.sort(proposals["prompt"].unique())
    if len(numbers) < FOLDS:
        raise ValueError(f"a calibration needs at least {FOLDS} prompts with proposals of masks, got {len(numbers)}")
    folds = dict(zip(np.random.default_rng(seed).permutation(numbers), np.arange(len(numbers)) % FOLDS, strict=True))
    fold = proposals["prompt"].map(folds)
    chances = {way: pd.Series(0.0, proposals.index) for way in WAYS}
    for number in range(FOLDS):
        for way in WAYS:
            left_out = proposals[fold == number]
            chances[way][fold == number] = chances_of(left_out, _pairs(proposals[fold != number], way))
    losses = {way: _log_loss(proposals["agrees"], found) for way, found in chances.items()}
    best = min(WAYS, key=losses.__getitem__)
    return Fit(
        masks=_pairs(proposals, best),
        log_loss={"probability": _log_loss(proposals["agrees"], proposals["score"]), **losses},
        before=reliability(proposals),
        after=reliability(proposals.assign(score=chances[best])),
    )


def chances_of(proposals: pd.DataFrame, pairs: list[list[float]]) -> np.ndarray[Any, Any]:
    """The calibrated scores of proposals; the last pair is for all further masks."""
    slopes, offsets = np.array(pairs)[np.minimum(proposals["depth"].to_numpy(), len(pairs)) - 1].T
    return np.asarray(expit(slopes * _odds(proposals["score"]) + offsets))


def expected_error(bins: pd.DataFrame) -> float:
    """The expected calibration error: how far the mean score is from the share that agrees, in the mean proposal."""
    return float(((bins["mean_score"] - bins["agreement"]).abs() * bins["n"]).sum() / bins["n"].sum())


def _pairs(proposals: pd.DataFrame, way: str) -> list[list[float]]:
    groups = [part for _, part in proposals.groupby("depth")] if way == "a pair for each mask" else [proposals]
    return [_platt(group) for group in groups]


def _platt(proposals: pd.DataFrame) -> list[float]:
    """Platt's slope and offset: a logistic regression on log-odds, whose targets are a little within 0 and 1."""
    from statsmodels.api import GLM  # slow to import
    from statsmodels.genmod.families import Binomial

    agrees = proposals["agrees"].to_numpy(dtype=bool)
    right, wrong = agrees.sum(), (~agrees).sum()
    targets = np.where(agrees, (right + 1) / (right + 2), 1 / (wrong + 2))
    odds = _odds(proposals["score"])
    slope, offset = GLM(targets, np.column_stack((odds, np.ones_like(odds))), family=Binomial()).fit().params
    if not slope > 0:
        raise ValueError("more probable proposals are not more often right: there is nothing to calibrate")
    return [float(slope), float(offset)]


def _odds(scores: pd.Series) -> np.ndarray[Any, Any]:
    return np.asarray(logit(np.clip(scores.to_numpy(dtype=float), LEAST_CHANCE, 1 - LEAST_CHANCE)))


def _log_loss(agrees: pd.Series, scores: pd.Series) -> float:
    chances = np.clip(scores.to_numpy(dtype=float), LEAST_CHANCE, 1 - LEAST_CHANCE)
    return float(-np.log(np.where(agrees.to_numpy(dtype=bool), chances, 1 - chances)).mean())
