"""Reliability of mask proposals: bins by hand, the calibration error by hand, depths apart."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.calibration import BINS, DEPTHS, EDGES, by_depth, calibration_error, reliability
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


FEW = proposals([1, 1, 1, 2, 2], [0.2, 0.4, 0.9, 0.9, 1.0], [0, 1, 1, 1, 0])


def test_bins_by_hand() -> None:
    found = reliability(FEW, edges=(0, 0.5, 1))
    assert list(found.columns) == list(BINS)
    assert found[["depth", "low", "high", "n"]].to_numpy().tolist() == [[1, 0, 0.5, 2], [1, 0.5, 1, 1], [2, 0.5, 1, 2]]
    assert found["mean_score"].tolist() == pytest.approx([0.3, 0.9, 0.95])
    assert found["agreement"].tolist() == [0.5, 1.0, 0.5]
    assert (found["agreement_low"][0], found["agreement_high"][0]) == pytest.approx(wilson_interval(1, 2))


def test_calibration_error_by_hand() -> None:
    assert calibration_error(FEW, edges=(0, 0.5, 1)) == pytest.approx((2 * 0.2 + 3 * abs(2.8 / 3 - 2 / 3)) / 5)
    perfect = proposals([1] * 4, [0.75] * 4, [1, 1, 1, 0])
    assert calibration_error(perfect) == pytest.approx(0)


def test_calibrated_scores_have_little_error() -> None:
    chance = np.random.default_rng(0)
    score = chance.uniform(size=20_000)
    good = proposals([1] * 20_000, list(score), list(chance.uniform(size=20_000) < score))
    assert calibration_error(good) < 0.015
    assert calibration_error(good.assign(agrees=chance.uniform(size=20_000) < score**2)) > 0.1


def test_depths_apart() -> None:
    found = by_depth(FEW, edges=(0, 0.5, 1))
    assert list(found.columns) == list(DEPTHS)
    assert found["n"].tolist() == [3, 2]
    assert found["agreement"].tolist() == pytest.approx([2 / 3, 1 / 2])
    assert found["calibration_error"].tolist() == pytest.approx([(2 * 0.2 + 1 * 0.1) / 3, 0.45])


def test_entropies_take_edges_of_their_own() -> None:
    entropies = proposals([1, 1], [0.1, 2.5], [1, 0])
    assert reliability(entropies, edges=(0, 1, 5))["agreement"].tolist() == [1, 0]
    assert by_depth(entropies, edges=None)["calibration_error"].isna().all()
    with pytest.raises(ValueError, match=r"score must be between 0 and 1, got 2\.5"):
        reliability(entropies)
    with pytest.raises(ValueError, match="between 0 and 1 for a calibration error, got 0 to 5"):
        calibration_error(entropies, edges=(0, 1, 5))


def test_a_probability_rounded_above_one_is_one() -> None:
    assert reliability(proposals([1], [1.0000002], [1]))["high"].tolist() == [1.0]


def test_edges_must_rise() -> None:
    with pytest.raises(ValueError, match="edges must rise, and be two or more, got 0, 1, 1"):
        reliability(FEW, edges=(0, 1, 1))
    with pytest.raises(ValueError, match="two or more, got 0"):
        reliability(FEW, edges=(0,))


def test_nothing_kept() -> None:
    none = FEW.iloc[:0]
    assert reliability(none).empty
    assert by_depth(none).empty
    with pytest.raises(ValueError, match="at least one proposal"):
        calibration_error(none)


def test_default_edges_hold_the_usual_thresholds() -> None:
    assert {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99} < set(EDGES)
