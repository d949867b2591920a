"""Reliability of mask proposals: bins by hand; the fit of their scores."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.calibration import BINS, FOLDS, WAYS, chances_of, expected_error, fit, reliability


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


def drawn(pairs: list[tuple[float, float]], count: int = 6000) -> pd.DataFrame:
    """Proposals of 100 prompts that are right as often as these pairs say."""
    chance = np.random.default_rng(1)
    found = proposals([1 + n % len(pairs) for n in range(count)], chance.uniform(0.05, 0.99, count), [1] * count)
    found = found.assign(prompt=found["number"] % 97)
    return found.assign(agrees=chance.uniform(size=count) < chances_of(found, pairs))


@pytest.mark.parametrize(("pairs", "way"), [([(0.6, 0.5)] * 3, WAYS[0]), ([(1.5, 1.0), (0.5, -1.0)], WAYS[1])])
def test_a_fit_finds_how_often_masks_are_right(pairs: list[tuple[float, float]], way: str) -> None:
    found = fit(drawn(pairs))
    assert min(found.log_loss, key=found.log_loss.__getitem__) == way
    wanted = pairs[: len(found.masks)]
    assert len(found.masks) == (1 if way == WAYS[0] else len(pairs))
    np.testing.assert_allclose(found.masks, wanted, atol=0.15)
    assert expected_error(found.after) < 0.03 < expected_error(found.before)


def test_a_fit_needs_prompts_and_telling_scores() -> None:
    whole = drawn([(1.0, 0.0)])
    with pytest.raises(ValueError, match=f"at least {FOLDS} prompts"):
        fit(whole[whole["prompt"] < FOLDS - 1])
    with pytest.raises(ValueError, match="not more often right"):
        fit(whole.assign(agrees=~whole["agrees"]))


def test_bins_by_hand() -> None:
    found = reliability(FEW)
    assert list(found.columns) == list(BINS)
    bins = [[0.2, 0.3, 2], [0.8, 0.9, 1], [0.95, 0.99, 1], [0.99, 1, 1]]
    assert found[["low", "high", "n"]].to_numpy().tolist() == bins, "0.9 is a little less in float32"
    assert found["mean_score"].tolist() == pytest.approx([0.25, 0.9, 0.98, 1])
    assert found["agreement"].tolist() == [0.5, 1.0, 1.0, 0.0]
