"""Claims 6 and 7: Jacobi decoding, and speculative decoding with a draft model."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(("gain", "verdict"), [(1.1, Verdict.HOLDS), (2.0, Verdict.FAILS)])
def test_jacobi(find: Any, make: Any, ar: Any, mars: Any, gain: float, verdict: Verdict) -> None:
    model = ar()
    runs = [make(model), make(model, "jacobi", gain=gain, draft_tokens=8), make(model, "jacobi", draft_tokens=2)]
    finding = find(6, runs)
    assert finding.verdict is verdict
    assert "with 8 draft tokens" in finding.measured[0]
    assert [row[1] for row in finding.tables[0].rows] == ["2", "8"]
    assert find(6, [make(model), make(mars(8), "jacobi")]).verdict is Verdict.MISSING


@pytest.mark.parametrize(
    ("speeds", "verdict"),
    [((130, 140), Verdict.HOLDS), ((130, 90), Verdict.FAILS), ((130, None), Verdict.MISSING)],
)
def test_speculative(
    find: Any, ar: Any, mars: Any, timed: Any, speeds: tuple[float, float | None], verdict: Verdict
) -> None:
    plain, masked = ar(), mars(4)
    runs = [timed(plain, "speculative", speed, 1, draft=plain, draft_tokens=k) for speed, k in ((100, 4), (80, 2))]
    for draft, speed in zip((plain, masked), speeds, strict=True):
        if speed is not None:
            runs.append(timed(masked, "speculative", speed, 1, draft=draft, continuation=True, threshold=0.9))
    finding = find(7, runs)
    assert finding.verdict is verdict
    assert finding.tables[0].rows[0][1:3] == ("AR → AR", "K = 4"), "the fastest setting of the baseline"
    without = timed(masked, "speculative", 500, 1, draft=plain)
    assert len(find(7, [*runs, without]).runs) == len(finding.runs), "a MARS target goes on with its own masks"
