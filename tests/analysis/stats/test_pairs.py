"""Paired comparisons: counts by hand, a constrained likelihood, coverage by simulation; speed-ups over turns."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest

from analysis.stats.intervals import Interval, share
from analysis.stats.pairs import PairedDifference, contrast, identical_texts, paired_difference, speed_up
from analysis.stats.turns import over_turns


def rows(correct: list[int], tasks: list[str] | None = None, **columns: object) -> pd.DataFrame:
    count = len(correct)
    frame = {"task": tasks or ["logic"] * count, "number": range(count), "correct": np.array(correct, dtype=bool)}
    return pd.DataFrame({**frame, "tokens": 10, "passes": 10, "seconds": 1.0, "text": "", **columns})


def difference(gained: int, lost: int, n: int) -> PairedDifference:
    return PairedDifference(n=n, gained=gained, lost=lost)


def test_counts_difference_and_mcnemar() -> None:
    candidate = rows([1, 1, 1, 1, 0, 0, 0, 1, 1, 1])
    baseline = rows([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    found = paired_difference(candidate, baseline)
    assert (found.n, found.gained, found.lost) == (10, 4, 2)
    assert found.score_interval().value == contrast([(1, candidate), (-1, baseline)]).value == pytest.approx(20)
    assert found.p_value == pytest.approx(binomtest(2, 6, 0.5).pvalue)
    back = paired_difference(baseline, candidate)
    assert (back.gained, back.lost, back.score_interval().value) == (2, 4, pytest.approx(-20))
    assert back.score_interval().low == pytest.approx(-found.score_interval().high)


def test_rows_are_matched_by_problem_not_by_position() -> None:
    candidate, baseline = rows([1, 0, 1, 0]), rows([1, 0, 1, 0])
    assert paired_difference(candidate.iloc[::-1], baseline).gained == 0


def test_other_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="same problems to be compared, got 4 and 3, of which 3 in both"):
        paired_difference(rows([1, 1, 1, 1]), rows([1, 1, 1]))
    with pytest.raises(ValueError, match="got 2 and 2, of which 1 in both"):
        paired_difference(rows([1, 1], ["logic", "tables"]), rows([1, 1]))
    with pytest.raises(ValueError, match="at least one problem"):
        paired_difference(rows([]), rows([]))


def test_without_discordant_pairs_score_intervals_stay_wide() -> None:
    run = rows([1] * 50)
    found = paired_difference(run, run)
    assert (contrast([(1, run), (-1, run)]), found.p_value) == (Interval(0, 0, 0), 1.0)
    score = found.score_interval()
    wilson = share(0, 50)
    assert score.high == pytest.approx(100 * wilson.high), "what Wilson says of 0 of 50"
    assert score.low == pytest.approx(-100 * wilson.high)


@pytest.mark.parametrize(("gained", "lost", "n"), [(4, 2, 10), (0, 7, 60), (31, 18, 400), (5, 0, 5), (1, 1, 2)])
def test_score_interval_is_where_the_constrained_likelihood_says(gained: int, lost: int, n: int) -> None:
    """At its ends the score, with the likeliest share of lost ones found numerically, is the normal quantile."""
    interval = difference(gained, lost, n).score_interval(0.9)
    for end, expected in ((interval.low / 100, 1.6448536), (interval.high / 100, -1.6448536)):
        if abs(end) == 1:
            continue

        def unlikely(share_lost: float, end: float = end) -> float:
            shares = [(gained, share_lost + end), (lost, share_lost), (n - gained - lost, 1 - 2 * share_lost - end)]
            return -sum(count * math.log(max(share, 1e-300)) for count, share in shares if count)

        bounds = (max(0.0, -end), (1 - end) / 2)
        share_lost = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
        deviation = math.sqrt(n * (2 * share_lost + end - end**2))
        assert (gained - lost - n * end) / deviation == pytest.approx(expected, abs=1e-3)


def test_test_and_bound_of_the_loss_agree() -> None:
    found = difference(3, 9, 300)
    bound = found.loss_at_most(0.95)
    assert bound > 2.0
    assert found.loss_p_value(bound) == pytest.approx(0.05)
    assert found.loss_p_value(bound + 0.5) < 0.05 < found.loss_p_value(bound - 0.5)
    assert found.loss_at_most(0.99) > bound
    with pytest.raises(ValueError, match="points must be above 0 and below 100, got 0"):
        found.loss_p_value(0)


@pytest.mark.parametrize(("gain", "loss", "n"), [(0.02, 0.04, 200), (0.0, 0.01, 300), (0.1, 0.1, 40)])
def test_losses_stay_under_bounds_as_often_as_said(gain: float, loss: float, n: int) -> None:
    chance, trials = np.random.default_rng(11), 2000
    counts = chance.multinomial(n, [gain, loss, 1 - gain - loss], trials)
    kinds, times = np.unique(counts[:, :2], axis=0, return_counts=True)
    bounds = np.array([difference(int(gained), int(lost), n).loss_at_most(0.95) for gained, lost in kinds])
    covered = times[bounds >= 100 * (loss - gain)].sum() / trials
    assert 0.935 <= covered <= 0.985


def test_bootstrap_of_points_covers_as_often_as_said() -> None:
    chance, hits, trials = np.random.default_rng(2), 0, 150
    for _ in range(trials):
        kinds = chance.choice(3, 150, p=[0.12, 0.06, 0.82])
        found = contrast([(1, rows(list(kinds == 0))), (-1, rows(list(kinds == 1)))])
        hits += found.low <= 6 <= found.high
    assert 0.89 <= hits / trials <= 0.99


def test_families_are_resampled_apart() -> None:
    tasks = ["a"] * 20 + ["b"] * 20
    found = contrast([(1, rows([1] * 20 + [0] * 20, tasks)), (-1, rows([0] * 40, tasks))])
    assert found == Interval(50, 50, 50), "each family always loses all or none"


def test_speed_up_is_paired() -> None:
    seconds = np.linspace(1, 30, 40)
    slow, fast = rows([1] * 40, seconds=2 * seconds), rows([1] * 40, seconds=seconds)
    found = speed_up(fast, slow)
    assert (found.low, found.value, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert speed_up(slow, fast).value == pytest.approx(0.5)
    assert speed_up(rows([1] * 40, passes=5), slow, "tokens_per_forward").value == pytest.approx(2.0)
    fewer_tokens = rows([1] * 40, seconds=seconds, tokens=5)
    assert speed_up(fewer_tokens, slow).value == pytest.approx(1.0), "throughput, not time"
    with pytest.raises(ValueError, match="speed must be one of tokens_per_forward, tokens_per_second, got 'tok/s'"):
        speed_up(fast, slow, "tok/s")
    with pytest.raises(ValueError, match="seconds must be above 0"):
        speed_up(rows([1], seconds=0.0), rows([1]))


def test_identical_texts() -> None:
    ours, theirs = rows([1] * 4, text=["a", "b", "c", "d"]), rows([1] * 4, text=["a", "b", "x", "d"])
    found = identical_texts(ours, theirs)
    assert found == share(3, 4)


TURNS, EACH = 12, 30


def _rows(seed: int, speed: float, machine: float = 0.0, slope: float = 0.0) -> pd.DataFrame:
    """Problems with tokens of their own; each turn is slower or faster by a draw, and by a slope over the turns."""
    tokens = np.random.default_rng(0).integers(20, 60, TURNS * EACH)
    factor = np.exp(np.random.default_rng(seed).normal(0, machine, TURNS) + slope * np.arange(TURNS))
    turn = np.repeat(np.arange(TURNS), EACH)
    seconds = tokens / speed * factor[turn] * np.exp(np.random.default_rng(seed + 1).normal(0, 0.05, len(tokens)))
    return pd.DataFrame(
        {"task": "x", "number": np.arange(len(tokens)), "tokens": tokens, "seconds": seconds, "turn": turn}
    )


def test_the_interval_holds_the_machine() -> None:
    quiet = over_turns(_rows(1, 150.0), _rows(11, 100.0))
    rough = over_turns(_rows(1, 150.0, machine=0.1), _rows(11, 100.0, machine=0.1))
    assert quiet is not None
    assert rough is not None
    assert quiet.value == pytest.approx(1.5, rel=0.02)
    assert rough.high - rough.low > 4 * (quiet.high - quiet.low)
    by_problems = speed_up(_rows(1, 150.0, machine=0.1), _rows(11, 100.0, machine=0.1))
    assert rough.high - rough.low > 2 * (by_problems.high - by_problems.low)


def test_intervals_are_right_as_often_as_said() -> None:
    found = [over_turns(_rows(seed, 150.0, machine=0.1), _rows(seed + 500, 100.0, machine=0.1)) for seed in range(100)]
    right = sum(each is not None and each.low <= 1.5 <= each.high for each in found)
    assert 90 <= right <= 99
