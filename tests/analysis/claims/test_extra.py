"""Claim 11: the extra proposal."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(
    ("gain", "accuracy", "verdict"),
    [(2.5, 0.88, Verdict.HOLDS), (2.5, 0.8, Verdict.FAILS), (2.0, 0.88, Verdict.FAILS), (1.5, 0.88, Verdict.FAILS)],
)
def test_the_extra_proposal(find: Any, swept: Any, gain: float, accuracy: float, verdict: Verdict) -> None:
    runs = swept({None: (0.9, 1), 0.95: (0.88, 2), 0.7: (0.8, 3)})
    runs += swept({0.95: (accuracy, gain), 0.7: (0.8, 4)}, extra_proposal=True)
    finding = find(11, runs)
    assert finding.verdict is verdict
    assert [row[1] for row in finding.tables[0].rows] == ["0.95", "0.7"]
    assert "at a loss of 2 points" in finding.tables[1].title
    assert find(11, runs[:3]).verdict is Verdict.MISSING
