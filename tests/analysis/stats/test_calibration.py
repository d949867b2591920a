"""Reliability of mask proposals: bins by hand, depths apart."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.calibration import BINS, EDGES, reliability
from analysis.stats.intervals import wilson_interval


def proposals(depth: list[int], score: list[float], agrees: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "task": "logic",
            "number": range(len(depth)),
            "depth": np.array(depth, dtype=np.int8),
            "score": np.array(score, dtype=np.float32),
            "agrees": np.array(agrees, dtype=bool),
        }
    )


FEW = proposals([1, 1, 1, 2, 2], [0.22, 0.28, 0.9, 0.98, 1.0], [0, 1, 1, 1, 0])


def test_bins_by_hand() -> None:
    found = reliability(FEW)
    assert list(found.columns) == list(BINS)
    bins = [[1, 0.2, 0.3, 2], [1, 0.8, 0.9, 1], [2, 0.95, 0.99, 1], [2, 0.99, 1, 1]]
    assert found[["depth", "low", "high", "n"]].to_numpy().tolist() == bins, "0.9 is a little less in float32"
    assert found["mean_score"].tolist() == pytest.approx([0.25, 0.9, 0.98, 1])
    assert found["agreement"].tolist() == [0.5, 1.0, 1.0, 0.0]
    assert (found["agreement_low"][0], found["agreement_high"][0]) == pytest.approx(wilson_interval(1, 2))


def test_scores_must_be_shares() -> None:
    with pytest.raises(ValueError, match=r"score must be between 0 and 1, got 2\.5"):
        reliability(proposals([1, 1], [0.1, 2.5], [1, 0]))


def test_a_probability_rounded_above_one_is_one() -> None:
    assert reliability(proposals([1], [1.0000002], [1]))["high"].tolist() == [1.0]


def test_nothing_kept() -> None:
    assert reliability(FEW.iloc[:0]).empty


def test_edges_hold_the_usual_thresholds() -> None:
    assert {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99} < set(EDGES)
