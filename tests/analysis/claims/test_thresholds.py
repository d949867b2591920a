"""Claim 3: τ gives a smooth frontier."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(
    ("accuracy", "gain", "verdict"),
    [
        (0.9, 1.7, Verdict.HOLDS),
        (0.85, 1.7, Verdict.FAILS),
        (0.9, 1.2, Verdict.FAILS),
        (0.885, 1.7, Verdict.OPEN),
        (0.9, 4.0, Verdict.FAILS),
    ],
)
def test_thresholds(find: Any, swept: Any, accuracy: float, gain: float, verdict: Verdict) -> None:
    """The last one is faster than τ = 0.5: no smooth frontier."""
    finding = find(3, swept({None: (0.9, 1), 0.95: (accuracy, gain), 0.5: (0.6, 3)}))
    assert finding.verdict is verdict
    assert [row[0] for row in finding.tables[0].rows] == ["none", "0.95", "0.5"]
    assert len(finding.tables) == 1


def test_thresholds_need_one_token_mode_and_the_papers_threshold(find: Any, swept: Any) -> None:
    assert find(3, swept({None: (0.9, 1), 0.9: (0.8, 2), 0.5: (0.6, 3)})).verdict is Verdict.MISSING
    assert find(3, swept({0.95: (0.9, 2), 0.5: (0.6, 3)})).verdict is Verdict.MISSING
