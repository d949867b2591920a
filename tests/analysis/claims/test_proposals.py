"""Claims 5, 9 and 11: verdicts on runs made for each."""

from typing import Any

import pytest

from analysis.claims import ClaimVerdict

HOLDS, FAILS, MISSING = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.MISSING


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, HOLDS), (1.5, FAILS)])
def test_scores(find: Any, swept: Any, factor: float, verdict: ClaimVerdict) -> None:
    """Margin gains `factor` times what the others gain at the same accuracies."""
    runs = swept({None: (0.9, 1)})
    for score, thresholds in (("probability", (0.9, 0.6)), ("margin", (0.8, 0.5)), ("entropy", (0.3, 1.2))):
        more = factor if score == "margin" else 1.0
        points_of = dict(zip(thresholds, ((0.89, 2 * more), (0.86, 3 * more)), strict=True))
        runs += swept(points_of, score=score)
    finding = find(5, runs)
    assert finding.verdict is verdict
    assert [tuple(row.compared.values()) for row in finding.comparisons] == [
        ("probability", "0.9, 0.6"),
        ("margin", "0.8, 0.5"),
        ("entropy", "0.3, 1.2"),
    ]
    assert find(5, runs[:5]).verdict is MISSING
    more = swept({None: (0.9, 1), 0.95: (0.895, 1.5), 0.9: (0.89, 2), 0.6: (0.86, 3)}, problems=800)
    assert {run.n for run in find(5, [*runs, *more]).runs} == {600}, "more runs of one score alone change nothing"
    for score, thresholds in (("margin", (0.8, 0.5)), ("entropy", (0.3, 1.2))):
        more += swept(dict(zip(thresholds, ((0.89, 2), (0.86, 3)), strict=True)), score=score, problems=800)
    assert {run.n for run in find(5, [*runs, *more]).runs} == {1600}, "the most problems count"


@pytest.mark.parametrize(("gain", "text", "verdict"), [(3.0, "", HOLDS), (3.0, "other", FAILS), (1.7, "", FAILS)])
def test_exact(find: Any, exact_runs: Any, gain: float, text: str, verdict: ClaimVerdict) -> None:
    finding = find(9, exact_runs(gain=gain, text=text))
    assert finding.verdict is verdict
    [row] = finding.comparisons
    assert row.measured["texts"] == f"{'0' if text else '1,200'} of 1,200 (600 problems 2 times)"
    assert row.measured["gain"].endswith("over τ = 0.99"), "τ = 0.5 loses too much to count"


@pytest.mark.parametrize(
    ("gain", "accuracy", "verdict"), [(2.5, 0.88, HOLDS), (2.5, 0.8, FAILS), (2.0, 0.88, FAILS), (1.5, 0.88, FAILS)]
)
def test_the_extra_proposal(find: Any, swept: Any, gain: float, accuracy: float, verdict: ClaimVerdict) -> None:
    runs = swept({None: (0.9, 1), 0.95: (0.88, 2), 0.7: (0.8, 3)})
    runs += swept({0.95: (accuracy, gain), 0.7: (0.8, 4)}, extra_proposal=True)
    finding = find(11, runs)
    assert finding.verdict is verdict
    assert [row.compared["τ"] for row in finding.comparisons] == ["0.95", "0.7"]
    assert find(11, runs[:3]).verdict is MISSING
