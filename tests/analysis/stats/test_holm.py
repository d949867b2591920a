"""Holm's correction: trying many settings fools it no more than said."""

import numpy as np
import pytest

from analysis.stats.pairs import PairedDifference, holm


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """statsmodels collects garbage in each correction, which is most of the time of these tests."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


def test_rarely_lets_pass_what_loses_too_much() -> None:
    """20 settings that each lose exactly the points allowed, tried together 300 times: to pass any is an error."""
    chance, wrong, trials = np.random.default_rng(4), 0, 300
    counts = chance.multinomial(400, [0.02, 0.05, 0.93], (trials, 20))
    for tried in counts:
        differences = [PairedDifference(n=400, gained=int(gained), lost=int(lost)) for gained, lost, _ in tried]
        corrected, _ = holm([difference.loss_p_value(3) for difference in differences], 0.05)
        wrong += min(corrected) <= 0.05
    assert wrong / trials <= 0.08


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([0.001, 0.02, 0.04, 0.5], [0.004, 0.06, 0.08, 0.5]),
        ([0.013, 0.012, 0.014], [0.036, 0.036, 0.036]),
        ([0.9], [0.9]),
        ([], []),
    ],
)
def test_levels_agree_with_the_corrected_values(p_values: list[float], expected: list[float]) -> None:
    corrected, levels = holm(p_values, 0.05)
    assert corrected == pytest.approx(expected)
    assert [p <= level for p, level in zip(p_values, levels, strict=True)] == [p <= 0.05 for p in corrected]
    assert all(0.05 / len(p_values) <= level <= 0.05 for level in levels)
