"""The operating point: what is chosen, why not the others, and that trying many settings fools it no more than said."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from analysis.stats.intervals import Interval
from analysis.stats.operating_points import holm, operating_point
from analysis.stats.pairs import PairedDifference


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


def test_the_fastest_that_surely_loses_little_is_chosen() -> None:
    tried = {"safe": losing(0, 10), "good": losing(4, 8), "doubtful": losing(9, 5), "bad": losing(120, 2)}
    found = operating_point(tried, BASELINE, points=1)
    assert [candidate.name for candidate in found.candidates] == ["bad", "doubtful", "good", "safe"]
    assert found.chosen is not None
    assert found.chosen.name == "good"
    assert found.chosen.speed.value == 2.5
    assert found.chosen.loss_at_most < 1
    reasons = {candidate.name: candidate.reason for candidate in found.candidates}
    assert reasons["bad"].startswith("refused: loses 10.00 points, perhaps 1")
    assert reasons["doubtful"].startswith("refused: may lose 1.")
    assert reasons["good"].startswith("chosen")
    assert reasons["safe"] == "qualifies, but is slower"
    assert "good: tokens per forward 2.50 [2.50, 2.50], loses 0.33 points, surely less than 0." in str(found)
    assert "4 settings tried" in str(found)


def test_speed_is_what_was_asked_for() -> None:
    tried = {"few passes": losing(0, 5).assign(seconds=9.0), "little time": losing(0, 10).assign(seconds=1.0)}
    assert operating_point(tried, BASELINE, points=1).chosen.name == "few passes"  # type: ignore[union-attr]
    by_time = operating_point(tried, BASELINE, points=1, speed="tokens_per_second")
    assert by_time.chosen is not None
    assert by_time.chosen.name == "little time"


def test_nothing_qualifies() -> None:
    few = operating_point({"same": losing(0, 5, 50)}, losing(0, 20, 50), points=1)
    assert few.chosen is None, "no loss in 50 problems is no proof of a loss below 1 point"
    assert "stay with the baseline" in str(few)
    assert "1 setting tried" in str(few)
    assert operating_point({}, BASELINE, points=1).chosen is None


def test_bound_and_decision_agree_whatever_the_correction() -> None:
    tried = {f"{count}": losing(count, 10) for count in range(16)}
    found = operating_point(tried, BASELINE, points=1)
    assert {candidate.qualifies for candidate in found.candidates} == {True, False}
    for candidate in found.candidates:
        assert candidate.qualifies == (candidate.loss_at_most <= 1) == (candidate.p_value <= 0.05)


def test_more_candidates_make_it_harder() -> None:
    alone = operating_point({"a": losing(5, 10)}, BASELINE, points=1)
    crowd = {f"bad {index}": losing(100, 5) for index in range(20)}
    among = operating_point({"a": losing(5, 10), **crowd}, BASELINE, points=1)
    assert alone.chosen is not None
    assert among.chosen is None


def test_rarely_lets_pass_what_loses_too_much() -> None:
    """20 settings that each lose exactly the points allowed, tried together 300 times: to pass any is an error."""
    chance, wrong, trials = np.random.default_rng(4), 0, 300
    counts = chance.multinomial(400, [0.02, 0.05, 0.93], (trials, 20))
    for tried in counts:
        differences = [
            PairedDifference(n=400, gained=int(gained), lost=int(lost), points=Interval(0, 0, 0), p_value=1)
            for gained, lost, _ in tried
        ]
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
    with pytest.raises(ValueError, match="speed must be one of tokens_per_forward, tokens_per_second, got 'fast'"):
        operating_point({}, BASELINE, points=1, speed="fast")
    with pytest.raises(ValueError, match="points must be above 0"):
        operating_point({"a": BASELINE}, BASELINE, points=0)
    with pytest.raises(ValueError, match="same problems"):
        operating_point({"a": losing(0, 10, 5)}, BASELINE, points=1)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        operating_point({}, BASELINE, points=1, confidence=1)
