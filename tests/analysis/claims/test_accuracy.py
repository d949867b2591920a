"""Claims 1, 2, 3 and 8: verdicts on runs made for each."""

from typing import Any

import pytest

from analysis.claims import ClaimVerdict

HOLDS, FAILS, OPEN, MISSING = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.OPEN, ClaimVerdict.MISSING

# Claim 1


@pytest.mark.parametrize(
    ("accuracy", "double", "verdict"),
    [
        (0.9, 0.9, HOLDS),
        (0.95, 0.9, HOLDS),
        (0.88, 0.9, FAILS),
        (0.9, 0.92, FAILS),
        (0.9, None, MISSING),
        (0.8, None, FAILS),
    ],
)
def test_one_token(find: Any, one_token: Any, accuracy: float, double: float | None, verdict: ClaimVerdict) -> None:
    finding = find(1, one_token(accuracy, double))
    assert finding.verdict is verdict
    assert len(finding.comparisons) == (1 if double is None else 2)


# Claim 2


@pytest.mark.parametrize(
    ("kept", "degraded", "verdict"), [(0.9, 0.8, HOLDS), (0.8, 0.9, FAILS), (0.9, 0.9, FAILS), (0.89, 0.885, OPEN)]
)
def test_sft_loss(find: Any, make: Any, mars: Any, kept: float, degraded: float, verdict: ClaimVerdict) -> None:
    """Accuracy at the largest block; 0.9 at the smallest."""
    runs = [
        make(mars(size, loss=loss), accuracy=0.9 if size == 4 else at, problems=200)
        for loss, at in ((True, kept), (False, degraded))
        for size in (4, 16)
    ]
    finding = find(2, runs)
    assert finding.verdict is verdict
    assert "(B = 4), " in finding.comparisons[0].compared["accuracy"]
    assert find(2, runs[:3]).verdict is MISSING


# Claim 3


@pytest.mark.parametrize(
    ("accuracy", "gain", "verdict"),
    [(0.9, 1.7, HOLDS), (0.85, 1.7, "loses"), (0.9, 1.2, "gains less"), (0.885, 1.7, OPEN), (0.9, 4.0, "takes tokens")],
)
def test_thresholds(find: Any, swept: Any, accuracy: float, gain: float, verdict: ClaimVerdict | str) -> None:
    """The last one is faster than τ = 0.5: no smooth frontier."""
    finding = find(3, swept({None: (0.9, 1), 0.95: (accuracy, gain), 0.5: (0.6, 3)}))
    [row] = finding.comparisons
    assert finding.verdict is (FAILS if isinstance(verdict, str) else verdict)
    assert row.measured["fails as it"].startswith(why := verdict if isinstance(verdict, str) else "")
    assert why in finding.headline
    assert row.measured["steps down in τ"].startswith("2, each" if gain < 4 else "2, not")


# Claim 8


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.5, HOLDS), (0.88, FAILS), (0.85, OPEN)])
def test_block_diffusion(find: Any, make: Any, ar: Any, mars: Any, accuracy: float, verdict: ClaimVerdict) -> None:
    diffusion = mars(4, stage="block_diffusion")
    tried = [make(diffusion, "block_diffusion", accuracy=each) for each in (accuracy, accuracy - 0.2)]
    tried[1][0]["settings"]["threshold"] = 0.9
    tried[1][0]["id"] += "9"
    few = make(diffusion, "block_diffusion", accuracy=1.0, problems=5)
    runs = [make(ar()), make(mars(4)), make(ar(), problems=5), few, *tried]
    finding = find(8, runs)
    assert finding.verdict is verdict, "the more accurate setting, but never one on few problems"
    against = [row.compared["against"].split(",")[0] for row in finding.comparisons]
    assert against == ["plain", "4True100mars"]
