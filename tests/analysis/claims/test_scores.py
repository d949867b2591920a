"""Claim 5: the scores give similar frontiers."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.HOLDS), (1.5, Verdict.FAILS)])
def test_scores(find: Any, swept: Any, factor: float, verdict: Verdict) -> None:
    """Margin gains `factor` times what the others gain at the same accuracies."""
    runs = swept({None: (0.9, 1)})
    for score, thresholds in (("probability", (0.9, 0.6)), ("margin", (0.8, 0.5)), ("entropy", (0.3, 1.2))):
        more = factor if score == "margin" else 1.0
        points_of = dict(zip(thresholds, ((0.89, 2 * more), (0.86, 3 * more)), strict=True))
        runs += swept(points_of, score=score)
    finding = find(5, runs)
    assert finding.verdict is verdict
    assert [row[:2] for row in finding.tables[0].rows] == [
        ("probability", "0.9, 0.6"),
        ("margin", "0.8, 0.5"),
        ("entropy", "0.3, 1.2"),
    ]
    assert find(5, runs[:5]).verdict is Verdict.MISSING
