"""Claim 9: exact decoding, in tokens per forward and on the clock."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(
    ("gain", "text", "verdict"), [(3.0, "", Verdict.HOLDS), (3.0, "other", Verdict.FAILS), (1.7, "", Verdict.FAILS)]
)
def test_exact(find: Any, exact_runs: Any, gain: float, text: str, verdict: Verdict) -> None:
    finding = find(9, exact_runs(gain=gain, text=text))
    assert finding.verdict is verdict
    assert finding.measured[0].endswith(f"{'0' if text else '1,200'} of 1,200 texts identical")
    assert "of τ = 0.99" in finding.measured[1], "τ = 0.5 loses too much to count"
    assert "τ = 0.99: tokens per forward" in finding.notes[0] or "no setting surely" in finding.notes[0]


def test_exact_on_the_clock(find: Any, mars: Any, timed: Any, exact_runs: Any) -> None:
    model, runs = mars(8), exact_runs()
    for batch_size, speed in ((1, 150), (4, 130), (16, 90)):
        runs.append(timed(model, "autoregressive", 100, batch_size))
        runs.append(timed(model, "self_speculative", speed, batch_size))
        runs.append(timed(model, "sliding_window", 120, batch_size, threshold=0.99))
        runs.append(timed(model, "sliding_window", 500, batch_size, threshold=0.5))
    finding = find(9, runs)
    assert finding.measured[-1].endswith("surely faster up to batch 4 (tried 1, 4, 16)")
    assert [row[5] for row in finding.tables[-1].rows] == ["τ = 0.99"] * 3, "not τ = 0.5, which loses 20 points"
