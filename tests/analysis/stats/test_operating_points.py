"""The operating point: what is chosen, and that trying many settings fools it no more than said."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from analysis.stats.operating_points import OperatingPoint, chosen_among, holm
from analysis.stats.pairs import PairedDifference, paired_difference
from analysis.stats.resampling import tokens_per_forward


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """statsmodels collects garbage in each correction, which is most of the time of these tests."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


def rows(correct: np.ndarray, passes: int = 10) -> pd.DataFrame:
    n = len(correct)
    return pd.DataFrame(
        {"task": "logic", "number": range(n), "correct": correct, "tokens": 20, "passes": passes, "seconds": passes / 4}
    )


def losing(count: int, passes: int, n: int = 1200) -> pd.DataFrame:
    return rows(np.arange(n) >= count, passes)


BASELINE = losing(0, 20)


def chosen(tried: Mapping[str, pd.DataFrame], baseline: pd.DataFrame = BASELINE, **options: Any) -> OperatingPoint:
    measured = {name: (tokens_per_forward(run), paired_difference(run, baseline)) for name, run in tried.items()}
    return chosen_among(measured, **{"points": 1, **options})


def test_the_fastest_that_surely_loses_little_is_chosen() -> None:
    tried = {"safe": losing(0, 10), "good": losing(4, 8), "doubtful": losing(9, 5), "bad": losing(120, 2)}
    found = chosen(tried)
    assert [candidate.name for candidate in found.candidates] == ["bad", "doubtful", "good", "safe"]
    assert [candidate.qualifies for candidate in found.candidates] == [False, False, True, True]
    assert found.chosen is not None
    assert found.chosen.name == "good"
    assert found.chosen.speed.value == 2.5
    assert found.chosen.loss_at_most < 1


def test_nothing_qualifies() -> None:
    few = chosen({"same": losing(0, 5, 50)}, losing(0, 20, 50))
    assert few.chosen is None, "no loss in 50 problems is no proof of a loss below 1 point"
    assert chosen({}).chosen is None


def test_bound_and_decision_agree_whatever_the_correction() -> None:
    found = chosen({f"{count}": losing(count, 10) for count in range(16)})
    assert {candidate.qualifies for candidate in found.candidates} == {True, False}
    for candidate in found.candidates:
        assert candidate.qualifies == (candidate.loss_at_most <= 1)


def test_more_candidates_make_it_harder() -> None:
    crowd = {f"bad {index}": losing(100, 5) for index in range(20)}
    assert chosen({"a": losing(5, 10)}).chosen is not None
    assert chosen({"a": losing(5, 10), **crowd}).chosen is None


def test_rarely_lets_pass_what_loses_too_much() -> None:
    """20 settings that each lose exactly the points allowed, tried together 300 times: to pass any is an error."""
    chance, wrong, trials = np.random.default_rng(4), 0, 300
    counts = chance.multinomial(400, [0.02, 0.05, 0.93], (trials, 20))
    for tried in counts:
        differences = [PairedDifference(n=400, gained=int(gained), lost=int(lost)) for gained, lost, _ in tried]
        corrected, _ = holm([difference.loss_p_value(3) for difference in differences], 0.05)
        wrong += min(corrected) <= 0.05
    assert wrong / trials <= 0.08


@pytest.mark.parametrize("p_values", [[0.001, 0.02, 0.04, 0.5], [0.012, 0.013, 0.014], [0.9], [0.03, 0.03]])
def test_levels_are_those_of_holm(p_values: list[float]) -> None:
    corrected, levels = holm(p_values, 0.05)
    assert corrected == pytest.approx(list(multipletests(p_values, method="holm")[1]))
    assert [p <= level for p, level in zip(p_values, levels, strict=True)] == [p <= 0.05 for p in corrected]
    assert 0.05 / len(p_values) <= min(levels)
    assert max(levels) <= 0.05


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="points must be above 0"):
        chosen({"a": BASELINE}, points=0)
